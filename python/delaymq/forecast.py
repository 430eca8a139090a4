"""Forecasts: how many messages and bytes become due in each minute or second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias, overload

from delaymq import _core
from delaymq._arguments.argument_errors import wrong_type
from delaymq._store.parts import StorePart
from delaymq.durations import due_ms, moment

__all__ = ["Forecast", "ForecastQueries", "Slot", "Slots"]

NUMBERS = 3  # numbers of a slot: start, messages, bytes

ForecastFilter: TypeAlias = tuple[str | None, int | None, int | None, bool]
"""A subject, two times in milliseconds since 1970, and whether slots are seconds."""

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Slot:
    """A minute or a second in which messages are due.

    Attributes:
        start: Its beginning, UTC.
        messages: The number of pending messages that are due in it.
        bytes: The total length of their bodies, in bytes.
    """

    start: datetime
    messages: int
    bytes: int


class Slots(Sequence[Slot]):
    """A sequence of slots, each created on access, since there may be tens of thousands."""

    def __init__(self, packed: bytes) -> None:
        """Wraps the core's answer: three native 64-bit integers for each slot."""
        self._packed = packed
        numbers = memoryview(packed).cast("Q")
        self._starts, self._messages, self._bytes = (numbers[place::NUMBERS] for place in range(NUMBERS))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Slot: ...
    @overload
    def __getitem__(self, index: slice) -> list[Slot]: ...
    def __getitem__(self, index: int | slice) -> Slot | list[Slot]:
        """One slot, or a list of some."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return Slot(moment(self._starts[index]), self._messages[index], self._bytes[index])

    def __eq__(self, other: object) -> bool:
        return self._packed == other._packed if isinstance(other, Slots) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._packed)

    def __repr__(self) -> str:
        return f"<Slots: {len(self)}>"

    @property
    def messages(self) -> Sequence[int]:
        """The number of messages of each slot."""
        return self._messages

    @property
    def bytes(self) -> Sequence[int]:
        """The number of bytes of each slot."""
        return self._bytes


@dataclass(frozen=True, slots=True)
class Forecast:
    """The messages that become due, as of one moment.

    Attributes:
        slots: Minutes or seconds, in order, without those in which no message is due.
        width: The length of a slot.
        hidden_rows: Entries in damaged blocks of files, which are not counted. Some may not be pending, or not
            match. 0 if nothing is damaged.
    """

    slots: Slots = field(repr=False)
    width: timedelta
    hidden_rows: int

    @property
    def messages(self) -> int:
        """The total number of messages."""
        return sum(self.slots.messages)

    @property
    def bytes(self) -> int:
        """The total length of their bodies, in bytes."""
        return sum(self.slots.bytes)

    @property
    def busiest(self) -> Slot | None:
        """The slot with the most messages (the first such slot), or None if no message is due."""
        messages = self.slots.messages
        place = max(range(len(messages)), key=messages.__getitem__, default=None)
        return None if place is None else self.slots[place]


class ForecastQueries(StorePart):
    """The method of `Store` for forecasts. It changes nothing."""

    def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages and bytes that become due in each minute, or each second of an hour.

        The counts are exact. For all subjects together, the store maintains the counts of minutes, so that no message
        is read, however many are pending. For one subject, they are computed from summaries in each file. Seconds are
        counted message by message.

        ::

            for slot in store.forecast().slots:
                print(slot.start, slot.messages, slot.bytes)

        Args:
            subject: Only this subject, which may be the retry subject of a group. Without it, everything.
            due_from: Begins with the minute of this time, an aware datetime. By default with the first pending message,
                overdue ones included; by seconds, from now on.
            due_before: Ends with the minute that contains this time. By default with the last pending message; by
                seconds, after an hour, which is the maximum.
            seconds: True for seconds instead of minutes.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: The store does not have the subject, a time is naive, the range is reversed, or it is
                longer than an hour by seconds.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        wanted = forecast_filter(subject, due_from, due_before, seconds=seconds)
        packed, hidden_rows = _core.forecast(self._core, wanted)
        return forecast_of(packed, hidden_rows, seconds=seconds)


def forecast_filter(
    subject: str | None, due_from: datetime | None, due_before: datetime | None, *, seconds: bool
) -> ForecastFilter:
    """Checks the arguments of `forecast`, and returns them as the core takes them.

    Raises:
        WrongType, InvalidArgument: One of the times is refused, or `seconds` is not a bool.
    """
    anything: object = seconds
    if not isinstance(anything, bool):
        raise wrong_type("seconds", "True or False", anything)
    first = None if due_from is None else due_ms(due_from, "due_from")
    return subject, first, None if due_before is None else due_ms(due_before, "due_before"), seconds


def forecast_of(packed: bytes, hidden_rows: int, *, seconds: bool) -> Forecast:
    """A `Forecast` from the answer of the core."""
    return Forecast(Slots(packed), SECOND if seconds else MINUTE, hidden_rows)
