"""Forecasts: how many messages and bytes become due in each minute or second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import overload

from delaymq.durations import moment

__all__ = ["Forecast", "Slot", "Slots"]

NUMBERS = 3  # numbers of a slot: start, messages, bytes

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
