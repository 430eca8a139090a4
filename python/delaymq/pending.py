"""Queries of pending messages: looked up by receipt, listed, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Self, TypeAlias

from delaymq import _core
from delaymq._arguments.batches import receipt_list
from delaymq._store.parts import StorePart
from delaymq.durations import due_ms
from delaymq.receipt import Receipt

__all__ = ["Fate", "Hidden", "LookedUp", "Pending", "PendingList", "PendingQueries"]

PAGE = 4_096  # entries that a list fetches at once from the core or the server

Page: TypeAlias = tuple[list[tuple[str, Receipt, int, int]], str, bool, list[tuple[str, int, int, str]]]
"""Rows, the cursor behind them, whether the list has ended, and the damaged blocks."""

PendingFilter: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""A subject, a prefix, and two times in milliseconds since 1970."""


class Fate(Enum):
    """The state of a message, as a look-up finds it."""

    PENDING = "pending"
    """The message is not due yet."""

    DISPATCHED = "dispatched"
    """The message became ready: it is or was delivered."""

    CANCELLED = "cancelled"
    """The message was cancelled, or voided because its bytes are damaged."""

    NOT_FOUND = "not_found"
    """The message is unknown: finished and forgotten, or lost in a crash in `os` mode."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The answer to looking up a receipt or a key.

    Attributes:
        fate: The state of the message. A key is never `CANCELLED`: when its message is cancelled, the key is free.
        subject: Its subject; empty if the store does not know the message any more.
        receipt: Its receipt; None if no message is known under the key.
    """

    fate: Fate
    subject: str
    receipt: Receipt | None

    @property
    def due(self) -> datetime | None:
        """When it is or was due, UTC; None without a receipt."""
        return None if self.receipt is None else self.receipt.due

    @property
    def size(self) -> int | None:
        """Length of its body in bytes; None without a receipt, or if that comes from a list, which reads no bodies."""
        return None if self.receipt is None else self.receipt.size


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that is pending.

    Attributes:
        subject: Its subject; for a retry, the retry subject of the group.
        receipt: Its receipt, without a size. It can be cancelled, moved and looked up like any other.
        attempt: The number of the delivery that it waits for, from 1.
        sequence: The place in the store's order of facts under which the message was published.
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
    """A damaged block of a file. Lists do not show its entries.

    Attributes:
        path: The file, relative to the store.
        block: The number of the block in that file, from 0.
        rows: Entries in it. Some may not be pending any more, or not match the query.
        reason: The error.
    """

    path: str
    block: int
    rows: int
    reason: str


class PendingRows:
    """The current page of a list, and its position; the base of the plain and the asyncio list."""

    def __init__(self, after: str | None) -> None:
        """Begins behind the cursor `after`, without a page."""
        self._after = after
        self._behind = after
        self._rows: Iterator[tuple[str, Receipt, int, int]] = iter(())
        self._last: Receipt | None = None
        self._is_done = False
        self._hidden: dict[tuple[str, int], Hidden] = {}

    @property
    def after(self) -> str | None:
        """The position of the list: `pending(after=…)` continues behind the last entry shown, also after a restart."""
        return self._after if self._last is None else _core.cursor_behind(self._last)

    @property
    def hidden(self) -> list[Hidden]:
        """Damaged blocks found so far, whose entries are missing from the list. Empty if nothing is damaged."""
        return list(self._hidden.values())

    def _take(self, page: Page) -> None:
        rows, self._behind, self._is_done, hidden = page
        for path, block, count, reason in hidden:
            self._hidden.setdefault((path, block), Hidden(path, block, count, reason))
        self._rows = iter(rows)

    def _next(self) -> Pending | None:
        """The next entry of the current page, or None at its end."""
        row = next(self._rows, None)
        if row is None:
            self._after, self._last = self._behind, None
            return None
        self._last = row[1]
        return Pending(*row)


class PendingList(PendingRows, Iterator[Pending]):
    """Pending messages in order of due time and sequence, fetched a page at a time.

    Each message that is pending from the first page to the last is shown once. A message that is published,
    cancelled or dispatched meanwhile may or may not be shown. The list holds no resources of the store.
    """

    def __init__(self, page: Callable[[str | None], Page], after: str | None) -> None:
        """Use `Store.pending` instead."""
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


class PendingQueries(StorePart):
    """The methods of `Store` that look up, list and count pending messages. None of them changes anything."""

    def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, without reading from disk.

        Raises:
            WrongType: `receipt` is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered: no store gave it out.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self.look_up_many((receipt,))[0]

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages as of one moment, in the order of their receipts.

        Raises:
            WrongType: `receipts` is not an iterable of `Receipt`.
            ForeignReceipt: Another store gave out receipt `index`.
            InvalidArgument: A receipt was altered.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        chosen = receipt_list(receipts)
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
        """Lists pending messages in order of due time and sequence, while the store works on.

        ::

            for one in store.pending(prefix="order."):
                print(one.due, one.subject, one.receipt)

        Args:
            subject: Only messages of this subject. An unknown subject has none.
            prefix: Only subjects whose names begin with this. Without `subject` and `prefix`, all subjects that users
                publish to; `"%"` lists the retries of groups, `""` everything.
            due_from: Only messages due at this time or later, an aware datetime.
            due_before: Only messages due before this time, an aware datetime.
            after: Only messages behind the cursor of an earlier list (its `after`), also of before a restart.

        Returns:
            An iterator that fetches a page at a time.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A time is naive, the range is reversed, both a subject and a prefix are given, the subject
                is empty, or `after` is not a cursor of this store.
            StorageError: The operating system refused to read, during iteration; the iteration can be continued.
            Poisoned, Closed, ForkedProcess: As `publish`, also during iteration.
        """
        reader = _core.pending(self._core, pending_filter(subject, prefix, due_from, due_before), after)
        return PendingList(lambda _: reader.next_page(PAGE), after)

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject. The counts are maintained, so no message is read.

        Args:
            subject: Only this subject; the result is empty if it is unknown.
            prefix: Only subjects whose names begin with this. Without both, all subjects that users publish to.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: Both a subject and a prefix are given, or the subject is empty.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.pending_counts(self._core, subject, prefix)


def looked_up(receipts: list[Receipt], answers: list[tuple[str, str]]) -> list[LookedUp]:
    """Pairs receipts with the core's answers."""
    found = zip(receipts, answers, strict=True)
    return [LookedUp(Fate(fate), subject, receipt) for receipt, (fate, subject) in found]


def looked_up_key(subject: str, answer: tuple[str, Receipt | None]) -> LookedUp:
    """The answer to looking up a key of a subject, from the core's answer."""
    fate, receipt = answer
    return LookedUp(Fate(fate), "" if receipt is None else subject, receipt)


def pending_filter(
    subject: str | None, prefix: str | None, due_from: datetime | None, due_before: datetime | None
) -> PendingFilter:
    """The filter of a list, as the core takes it.

    Raises:
        WrongType, InvalidArgument: One of the times is refused.
    """
    first = None if due_from is None else due_ms(due_from, "due_from")
    return subject, prefix, first, None if due_before is None else due_ms(due_before, "due_before")
