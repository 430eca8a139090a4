"""What a publish answers with, and what a cancel or a move answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from delaymq._core import Receipt, Receipts

__all__ = ["Moved", "Outcome", "Receipt", "Receipts"]


class Outcome(Enum):
    """What a cancel or a move found. It is durable when it is answered."""

    DONE = "done"
    """The message was pending: it is cancelled, or moved."""

    ALREADY_DISPATCHED = "already_dispatched"
    """The message was due before the command arrived; it is delivered."""

    NOT_FOUND = "not_found"
    """The store gave it out and knows it no more.

    It was moved and has another receipt, is long finished and forgotten, or was lost with a crash in `os` mode; what
    is cancelled cannot be moved.
    """


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of a message that was to be moved. It is durable when it is answered."""

    outcome: Outcome
    """What was found."""

    receipt: Receipt | None
    """The message's receipt from now on, where it is done; the one before is of nothing any more."""
