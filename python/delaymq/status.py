"""The state of a store: progress of its recovery, a snapshot of its counts, and its clock."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClockStatus", "Progress", "Status"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of recovery while a store is opened.

    Attributes:
        facts: Facts applied so far.
        bytes: Bytes of the log applied so far.
        bytes_whole: Bytes of the log to apply in total.
    """

    facts: int
    bytes: int
    bytes_whole: int


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a store, as counts and flags.

    Attributes:
        durability: When a call is answered, `"disk"` or `"os"`.
        epoch: The number of times that the store was opened for writing, including this one.
        created: True if this open created the store.
        closed: True once it was closed.
        pending: Messages that are not due yet.
        ready: Messages that are due and that some group has not finished.
        accepted: The sequence that the next fact gets.
        visible: Facts below this sequence are as durable as `durability` says.
        applied: Facts below this sequence have been applied.
        now_ms: The store's trusted clock, in milliseconds since 1970.
        recovered_ms: How long recovery took at this open, in milliseconds.
        recovered_facts: The number of facts that recovery applied.
        held: True while dispatch waits because the system's clock is not trusted.
        disk_full: True while publishes are refused for lack of space: the disk is full, or has less free space
            than `refuse_free_bytes`.
        room_low: True while there is less free space than `warn_free_bytes`; false again with an eighth more.
        free_bytes: Free space when it was last measured, at most about a second ago; None if no limit is set.
        poisoned: Why the store refuses every call, or None.
        aside: Descriptions of the files that this open set aside.
        zones: The version of the time zone rules that series follow, and where they are from, such as
            `"2026a (delaymq)"` or `"2026b (/usr/share/zoneinfo)"`.
        voided: Messages voided since this open because their payload was damaged.
        expired: Messages that have expired since this open.
        hot_minutes: Minutes in which more than `hot_minute_messages` messages are due.
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
    zones: str
    voided: int
    expired: int
    hot_minutes: int


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """The clock of a store, and why dispatch is held, if it is.

    Attributes:
        now_ms: The store's trusted clock, in milliseconds since 1970.
        wall_ms: The system's wall clock, in milliseconds since 1970.
        ahead_ms: How far the wall clock is ahead of the trusted clock; less than 0 if it is behind.
        is_synchronised: True if the kernel reports that a time service keeps the wall clock right.
        held: True while dispatch is held: messages wait, and publishes go on.
        reason: Why dispatch is held, or None: `"stepped_ahead"`, `"stepped_ahead_while_closed"`, or `"behind_log"` if
            the wall clock is behind a time that is in the log.
        held_since_ms: When the hold began, by the trusted clock, or None.
        held_ms: How long dispatch has been held, or None.
        accepted_in_ms: How long the wall clock must keep its pace until the step is accepted (`clock_accept_after`);
            None if dispatch is not held or only an operator accepts the step.
        words: The hold in one sentence, with the command that ends it, or None.
    """

    now_ms: int
    wall_ms: int
    ahead_ms: int
    is_synchronised: bool
    held: bool
    reason: str | None
    held_since_ms: int | None
    held_ms: int | None
    accepted_in_ms: int | None
    words: str | None
