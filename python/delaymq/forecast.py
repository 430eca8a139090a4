"""What is due when: how many messages, and how many bytes, in each minute or second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias, overload

from delaymq import _core
from delaymq._arguments.argument_errors import wrong_type
from delaymq.durations import due_ms, moment

__all__ = ["Forecast", "ForecastQueries", "Slot", "Slots"]

NUMBERS = 3  # of a slot: its start, messages and bytes

Asked: TypeAlias = tuple[str | None, int | None, int | None, bool]
"""A subject, two times in milliseconds since 1970, and whether by the second."""

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Slot:
    """A minute or a second in which something is due.

    Attributes:
        start: Its beginning, UTC.
        messages: How many messages are pending that are due in it.
        bytes: How many bytes their bodies have together.
    """

    start: datetime
    messages: int
    bytes: int


class Slots(Sequence[Slot]):
    """Slots, each made when it is asked for: there may be tens of thousands."""

    def __init__(self, told: bytes) -> None:
        """Made by `forecast`, of what the core told: three numbers of 64 bits for each slot."""
        self._told = told
        numbers = memoryview(told).cast("Q")
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
        return self._told == other._told if isinstance(other, Slots) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._told)

    def __repr__(self) -> str:
        return f"<Slots: {len(self)}>"

    @property
    def messages(self) -> Sequence[int]:
        """The messages of each, as numbers."""
        return self._messages

    @property
    def bytes(self) -> Sequence[int]:
        """The bytes of each, as numbers."""
        return self._bytes


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is due when, as of one moment.

    Attributes:
        slots: Minutes, or seconds, in order; those in which nothing is due are left out.
        width: How long each of them is.
        hidden_rows: Messages in damaged blocks of files, which are not counted: some may be pending, and be of what was
            asked for. 0 where all is well.
    """

    slots: Slots = field(repr=False)
    width: timedelta
    hidden_rows: int

    @property
    def messages(self) -> int:
        """How many messages are due in all of it."""
        return sum(self.slots.messages)

    @property
    def bytes(self) -> int:
        """How many bytes their bodies have together."""
        return sum(self.slots.bytes)

    @property
    def busiest(self) -> Slot | None:
        """The slot with the most messages, the first of those that have as many; None where nothing is due."""
        messages = self.slots.messages
        place = max(range(len(messages)), key=messages.__getitem__, default=None)
        return None if place is None else self.slots[place]


class ForecastQueries:
    """The part of a store that says what is due when; `Store` has it. It changes nothing."""

    _core: _core.Store

    def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """How many messages are due in each minute, or each second of an hour, and how many bytes they have.

        It counts exactly what is pending. The minutes of all subjects together are kept, and telling them looks at
        no message, however much is pending. Those of one subject are put together from what each file says of it.
        Seconds are counted, message by message, each as it is read.

        ::

            for slot in store.forecast().slots:
                print(slot.start, slot.messages, slot.bytes)

        Args:
            subject: Of this subject only, which may be one that holds what a group gave back; else of everything.
            due_from: From the minute of this time on, an aware datetime; else from the first that is pending,
                overdue ones among them. By seconds it is from now on.
            due_before: Up to the minute in which this time ends; else to the last. By seconds it is an hour, and no
                more.
            seconds: True for seconds instead of minutes.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: The store does not have the subject, a time is naive, the range is upside down, or it is
                longer than an hour by seconds.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        chosen = asked_forecast(subject, due_from, due_before, seconds=seconds)
        told, hidden_rows = _core.forecast(self._core, chosen)
        return told_forecast(told, hidden_rows, seconds=seconds)


def forecasting_of(core: _core.Store) -> ForecastQueries:
    """The method alone, for who has the core of a store."""
    alone = ForecastQueries()
    alone._core = core  # noqa: SLF001 - a store made of this part only
    return alone


def asked_forecast(
    subject: str | None, due_from: datetime | None, due_before: datetime | None, *, seconds: bool
) -> Asked:
    """What is asked for, as it crosses the boundary.

    Raises:
        WrongType, InvalidArgument: One of the times is refused, or `seconds` is no bool.
    """
    anything: object = seconds
    if not isinstance(anything, bool):
        raise wrong_type("seconds", "True or False", anything)
    first = None if due_from is None else due_ms(due_from, "due_from")
    return subject, first, None if due_before is None else due_ms(due_before, "due_before"), seconds


def told_forecast(told: bytes, hidden_rows: int, *, seconds: bool) -> Forecast:
    """What crossed the boundary, as people read it."""
    return Forecast(Slots(told), SECOND if seconds else MINUTE, hidden_rows)
