"""What a store tells about itself: how far an open has come, and a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Progress", "Status"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an open has come.

    Attributes:
        facts: Facts applied so far.
        bytes: Bytes of the log applied so far.
        bytes_whole: Bytes of the log to apply in all.
    """

    facts: int
    bytes: int
    bytes_whole: int


@dataclass(frozen=True, slots=True)
class Status:
    """What a store holds and how it is.

    Attributes:
        durability: When a call is answered, `"disk"` or `"os"`.
        epoch: How often the store was opened for writing, this open included.
        created: True where this open made the store.
        closed: True once it was closed.
        pending: Messages that are not due yet.
        ready: Messages that became due and that some group has not finished.
        accepted: The sequence that the next fact gets.
        visible: Facts below this sequence are as durable as was asked for.
        applied: Facts below this sequence have had their effect.
        now_ms: The store's trusted clock, in milliseconds since 1970.
        recovered_ms: How long recovery took at this open, in milliseconds.
        recovered_facts: How many facts recovery applied.
        held: True while dispatch waits because the clock cannot be trusted.
        disk_full: True while publishes are refused for want of room: the disk is full, or less of it is free
            than `refuse_free_bytes`.
        room_low: True while less of it is free than `warn_free_bytes`, or an eighth more once it was.
        free_bytes: What was free at the last look, at most about a second ago; None where no mark is set.
        poisoned: Why the store refuses everything, or None.
        aside: What this open set aside, in words.
        voided: Messages given up because their payload was damaged, since this open.
        expired: Messages that `expire` gave up, since this open.
        hot_minutes: Minutes in which more messages are due than `hot_minute_messages` allows for.
    """

    durability: str
    epoch: int
    created: bool
    closed: bool
    pending: int
    ready: int
    accepted: int
    visible: int
    applied: int
    now_ms: int
    recovered_ms: int
    recovered_facts: int
    held: bool
    disk_full: bool
    room_low: bool
    free_bytes: int | None
    poisoned: str | None
    aside: tuple[str, ...]
    voided: int
    expired: int
    hot_minutes: int
