"""Queries of pending messages: looked up by receipt, listed, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Self, TypeAlias

from delaymq import _core
from delaymq.receipt import Receipt

__all__ = ["Fate", "Hidden", "LookedUp", "Pending", "PendingList"]

PAGE = 4_096  # entries that a list fetches at once from the core or the server

Page: TypeAlias = tuple[list[tuple[str, Receipt, int, int]], str, bool, list[tuple[str, int, int, str]]]
"""Rows, the cursor behind them, whether the list has ended, and the damaged blocks."""


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
