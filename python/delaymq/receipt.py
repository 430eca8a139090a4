"""Answers of the commands: receipts of a publish, outcomes of a cancel or a move."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from delaymq._core import Receipt, Receipts

__all__ = ["Moved", "Outcome", "Receipt", "Receipts"]


class Outcome(Enum):
    """The durable result of a cancel or a move."""

    DONE = "done"
    """The message was pending, and is now cancelled or moved."""

    ALREADY_DISPATCHED = "already_dispatched"
    """The message was due before the command arrived; it is delivered. By key, the store knows this for ten minutes."""

    NOT_FOUND = "not_found"
    """The store gave out the receipt but does not know the message any more, or no message is known under the key.

    The message was moved and has another receipt, was finished and forgotten, or was lost in a crash in `os` mode.
    A cancelled message cannot be moved either.
    """


@dataclass(frozen=True, slots=True)
class Moved:
    """The durable result of moving one message."""

    outcome: Outcome
    """Whether the message was moved."""

    receipt: Receipt | None
    """The message's new receipt if the outcome is `DONE`; the old one is not valid any more."""
