"""What a publish answers with, and what a cancel answers."""

from __future__ import annotations

from enum import Enum

from delaymq._core import Receipt, Receipts

__all__ = ["Outcome", "Receipt", "Receipts"]


class Outcome(Enum):
    """What a cancel found. It is durable when it is answered."""

    DONE = "done"
    """The message was pending; it will not be delivered."""

    ALREADY_DISPATCHED = "already_dispatched"
    """The message was due before the cancel arrived; it is delivered."""

    NOT_FOUND = "not_found"
    """The store gave it out and knows it no more: long finished and forgotten, or lost with a crash in `os` mode."""
