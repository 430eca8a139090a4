"""What is pending: looked up by receipt, listed, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Self, TypeAlias

from delaymq import _core
from delaymq._arguments.batches import listed
from delaymq.durations import due_ms
from delaymq.receipt import Receipt

__all__ = ["Fate", "Hidden", "LookedUp", "Pending", "PendingList", "PendingQueries"]

PAGE = 4_096  # entries of a list that cross from Rust, or the network, at once

Page: TypeAlias = tuple[list[tuple[str, Receipt, int, int]], str, bool, list[tuple[str, int, int, str]]]
"""Rows, the cursor behind them, whether the list has ended, and what could not be read."""

Asked: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""A subject, a prefix, and two times in milliseconds since 1970."""


class Fate(Enum):
    """What became of a message."""

    PENDING = "pending"
    """It waits for its time."""

    DISPATCHED = "dispatched"
    """It became ready: it is delivered, or was."""

    CANCELLED = "cancelled"
    """It was cancelled, or given up because its bytes are damaged."""

    NOT_FOUND = "not_found"
    """The store gave it out and knows it no more: long finished and forgotten, or lost with a crash in `os` mode."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What a receipt says of its message, and what became of that.

    Attributes:
        fate: What became of it.
        subject: Its subject; empty where the store knows it no more.
        due: When it is or was due, UTC.
        size: Bytes of its body; None where the receipt comes from a list, which does not look at bodies.
    """

    fate: Fate
    subject: str
    due: datetime
    size: int | None


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that is pending.

    Attributes:
        subject: Its subject; of what a group gave back, the group's retry subject.
        receipt: Its receipt, without a size: it cancels and is looked up as any other.
        attempt: Which delivery it waits for, from 1.
        sequence: The place in the store's order of facts that the message was published under.
    """

    subject: str
    receipt: Receipt
    attempt: int
    sequence: int

    @property
    def due(self) -> datetime:
        """When it is due, UTC."""
        return self.receipt.due


@dataclass(frozen=True, slots=True)
class Hidden:
    """A damaged block of a file, whose entries a list does not show.

    Attributes:
        path: The file, in the folder of the store.
        block: The block's number in it, from 0.
        rows: Entries in it; some may have left, or be of other subjects and times than were asked for.
        reason: What is wrong with it.
    """

    path: str
    block: int
    rows: int
    reason: str


class PendingRows:
    """What both kinds of list keep: the page in hand, and where it stands."""

    def __init__(self, after: str | None) -> None:
        """Nothing is shown yet."""
        self._after = after
        self._behind = after
        self._rows: Iterator[tuple[str, Receipt, int, int]] = iter(())
        self._last: Receipt | None = None
        self._is_done = False
        self._hidden: dict[tuple[str, int], Hidden] = {}

    @property
    def after(self) -> str | None:
        """Where the list has come to: `pending(after=…)` goes on behind what was shown, also after a restart."""
        return self._after if self._last is None else _core.cursor_behind(self._last)

    @property
    def hidden(self) -> list[Hidden]:
        """Damaged blocks that were met so far; what they hold is not in the list. Empty where all is well."""
        return list(self._hidden.values())

    def _take(self, page: Page) -> None:
        rows, self._behind, self._is_done, hidden = page
        for path, block, count, reason in hidden:
            self._hidden.setdefault((path, block), Hidden(path, block, count, reason))
        self._rows = iter(rows)

    def _next(self) -> Pending | None:
        """The next one of the page in hand."""
        row = next(self._rows, None)
        if row is None:
            self._after, self._last = self._behind, None
            return None
        self._last = row[1]
        return Pending(*row)


class PendingList(PendingRows, Iterator[Pending]):
    """What is pending, in the order of due time and sequence, read a page at a time.

    What is pending from the first page to the last is shown once. What comes, is cancelled or becomes
    ready meanwhile may be shown or not. It holds nothing in the store, and may be left at any time.
    """

    def __init__(self, page: Callable[[str | None], Page], after: str | None) -> None:
        """Made by `pending`."""
        super().__init__(after)
        self._page = page

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Pending:
        while (found := self._next()) is None:
            if self._is_done:
                raise StopIteration
            self._take(self._page(self._behind))
        return found


class PendingQueries:
    """The part of a store that says what is pending; `Store` has these methods. None of them changes anything."""

    _core: _core.Store

    def look_up(self, receipt: Receipt) -> LookedUp:
        """What became of a message, by its receipt. Reads nothing from disk.

        Raises:
            WrongType: It is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave it out.
            InvalidArgument: No store gave it out: it was altered.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self.look_up_many((receipt,))[0]

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """What became of messages, in the order of their receipts, as of one moment.

        Raises:
            WrongType: They are not an iterable of `Receipt`.
            ForeignReceipt: Another store gave one of them out; `index` says which.
            InvalidArgument: One of them was altered.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        chosen = listed(receipts, "receipts", "an iterable of Receipt")
        return looked_up(chosen, _core.look_up_many(self._core, chosen))

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> PendingList:
        """Lists what is pending, in the order of due time and sequence, while everything goes on.

        ::

            for one in store.pending(prefix="order."):
                print(one.due, one.subject, one.receipt)

        Args:
            subject: Of this subject only; one that is not there has nothing pending.
            prefix: Of subjects whose names begin so instead. With neither it lists what users published; `"%"`
                is what groups gave back, and `""` is everything.
            due_from: Only what is due at this time or later, an aware datetime.
            due_before: Only what is due before this time, an aware datetime.
            after: Only what comes behind the place that another list's `after` named, in this life of the store
                or an earlier one.

        Returns:
            An iterator that reads a page at a time.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A time is naive, the range is upside down, a subject and a prefix are named, the subject
                is empty, or `after` is no cursor or one of another store.
            StorageError: The operating system refused to read, while it is iterated; it goes on.
            Poisoned, Closed, ForkedProcess: As `publish`, also while it is iterated.
        """
        reader = _core.pending(self._core, asked(subject, prefix, due_from, due_before), after)
        return PendingList(lambda _: reader.next_page(PAGE), after)

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject. It is kept, and not counted: it looks at no message.

        Args:
            subject: Of this subject only; the answer is empty where it is not there.
            prefix: Of subjects whose names begin so instead; with neither, of those that users publish to.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A subject and a prefix are named, or the subject is empty.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.pending_counts(self._core, subject, prefix)


def looking_at(core: _core.Store) -> PendingQueries:
    """These methods alone, for who has the core of a store."""
    alone = PendingQueries()
    alone._core = core  # noqa: SLF001 - a store made of this part only
    return alone


def looked_up(receipts: list[Receipt], told: list[tuple[str, str]]) -> list[LookedUp]:
    """What was found of each receipt, from what crossed the boundary."""
    found = zip(receipts, told, strict=True)
    return [LookedUp(Fate(fate), subject, receipt.due, receipt.size) for receipt, (fate, subject) in found]


def asked(subject: str | None, prefix: str | None, due_from: datetime | None, due_before: datetime | None) -> Asked:
    """What is listed, as it crosses the boundary.

    Raises:
        WrongType, InvalidArgument: One of the times is refused.
    """
    first = None if due_from is None else due_ms(due_from, "due_from")
    return subject, prefix, first, None if due_before is None else due_ms(due_before, "due_before")
