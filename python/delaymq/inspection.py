"""Inspection of a store without its lock, also while another process has it open."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from delaymq import _core
from delaymq._store.recovery import KEEP_FINISHED, errors_named, folder_of
from delaymq._store.retention import RetentionPolicy
from delaymq.durations import Duration, moment, moment_or_none

__all__ = ["HeldSpace", "Holder", "InspectedFile", "InspectedGroup", "InspectedSubject", "Inspection", "inspect"]

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """One file of a store.

    Attributes:
        path: Its path, relative to the store.
        kind: segment, preparing, schedule_run, dispatch_run, unused_run, checkpoint, aside, pin or other.
        bytes: Its length.
        hole_bytes: Bytes of it that are holes. The store punches holes into finished parts, two checkpoints later, and
            into prepared parts that were never used, when it closes or is opened again.
        rows: Messages of a run; 0 for other kinds.
        unfinished: Rows that are not finished.
        pending: Pending messages whose payloads are in the file.
        written: When it was last written, UTC, for segments and runs that are complete; else None.
        kept_until: The end of its retention, UTC, by the durations given to `inspect`; it may be past. None for files
            that are still written to, and for kinds other than segments and runs.
        kept_for: The subject whose retention applies, or None if `keep_finished` applies or the subjects of the
            file are unknown.
        held_by: Indexes into `Inspection.holders`: the first 16 holders that need the file.
        held_by_count: The number of holders that need the file.
    """

    path: str
    kind: str
    bytes: int
    hole_bytes: int
    rows: int
    unfinished: int
    pending: int
    written: datetime | None
    kept_until: datetime | None
    kept_for: str | None
    held_by: tuple[int, ...]
    held_by_count: int


@dataclass(frozen=True, slots=True)
class InspectedSubject:
    """One subject.

    Attributes:
        name: Its name.
        pending: Messages that are not due yet.
        next_due: When the first of them is due, UTC, or None.
        ready: Messages that are due and that some group has not finished.
        next_number: The number that its next ready message gets: how many have become ready so far.
        groups: The number of its groups.
        expired: Messages that have expired, also as retries of a group.
    """

    name: str
    pending: int
    next_due: datetime | None
    ready: int
    next_number: int
    groups: int
    expired: int


@dataclass(frozen=True, slots=True)
class InspectedGroup:
    """One group of a subject.

    Attributes:
        subject: Its subject.
        name: Its name.
        cursor: The next number that was never assigned to one of its consumers.
        next_number: The number that the subject's next ready message gets.
        lag: Ready messages that it has not finished.
        in_flight: How many of these a consumer holds.
        start: The number of the ready message that it began with.
        dead_letters: The number of its dead letters.
        consumers: Each consumer's name and how many messages it holds.
    """

    subject: str
    name: str
    cursor: int
    next_number: int
    lag: int
    in_flight: int
    start: int
    dead_letters: int
    consumers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A reason why files are kept: it needs the log from a segment on, and runs.

    Attributes:
        kind: `group`: it has not finished messages in the files; `dead_letters`: dead letters of a
            group; `no_group`: ready messages that no group consumes; `pending`: messages that are not due;
            `replay`: facts that an open applies; `pin`: a reader without the lock, which keeps every
            file; `archive`: an archive that retention waits for; `checkpoint`: an open may start from it.
        subject: The subject, or None.
        group: The group, or None.
        consumers: The number of the group's consumers, or None. A group of an open store with 0 consumers does not
            release files by itself. A consumer with a lasting name may be disconnected; nothing is connected to a
            closed store.
        consumer_ended: When the group's last consumer ended, UTC, or None if none has, as far as is known.
        number: The number of the run or checkpoint, or None; also None for facts after the last checkpoint.
        pin: The name of the file of the pin, or of the archive's mark, or None.
        expires: When the pin expires by itself, UTC, or None.
        messages: The number of messages; 0 if the holder does not hold messages.
        segment: The oldest segment that is needed, or None if only runs are.
        begun: When that segment began, UTC, or None.
        bytes: Bytes of the log from that segment on, and of the runs.
        alone: Bytes that no other holder needs: they are freed two checkpoints after this holder is gone, once they
            are older than `keep_finished`. A group's retries and dead letters end with it, so what they need counts
            as the group's. 0 for a checkpoint, which is replaced by itself.
    """

    kind: str
    subject: str | None
    group: str | None
    consumers: int | None
    consumer_ended: datetime | None
    number: int | None
    pin: str | None
    expires: datetime | None
    messages: int
    segment: int | None
    begun: datetime | None
    bytes: int
    alone: int


@dataclass(frozen=True, slots=True)
class HeldSpace:
    """How much space is held for one reason.

    Attributes:
        reason: `dead_group`: groups without consumers; `group`: other groups; `dead_letters`, `no_group`,
            `pending`, `replay`, `pin`, `archive`: as in `Holder.kind`; `finished`: only finished messages,
            removed when the retention is over; `upkeep`: checkpoints and prepared segments; `aside`: files that
            repairs set aside.
        holders: The number of holders with this reason.
        bytes: Bytes held; bytes with several reasons count for each.
        alone: Bytes held for this reason only.
    """

    reason: str
    holders: int
    bytes: int
    alone: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """A store as of the last fact that was visible when it was inspected.

    Attributes:
        path: The store's folder.
        seen: When it was inspected, UTC.
        open_in: The process that has it open, or None; also None if the system does not tell.
        epoch: The number of times that it was opened for writing.
        register: For a copy in a cluster, the coordinator and the version of the register that it saw last.
            None for a store alone.
        checkpoint: The number of the newest checkpoint, or None.
        next_sequence: The sequence after the last fact that was read.
        trusted: The store's trusted clock at that fact, UTC.
        sealed: True if the store was closed cleanly.
        facts_behind: Facts after the checkpoint, which an open would apply.
        bytes_behind: Bytes of these facts in the log.
        facts_unconfirmed: Facts that are being written, or that a crash left for the next open to judge; they
            are counted nowhere else.
        pending: Messages that are not due yet.
        next_due: When the first of them is due, UTC, or None.
        ready: Messages that are due and that some group has not finished.
        voided: Messages voided because their bytes were damaged.
        files: Every file.
        subjects: Every subject.
        groups: Every group.
        holders: The holders of files, ordered by the oldest segment that they need.
        space: How much space is held for which reason.
        pins: The names of pins, each of a reader that keeps every file.
        damaged: Descriptions of what is unreadable or missing.
        refused: Why `delaymq.open` would refuse the store, or None. If it would, everything above is as of the
            last fact before the first one that is lost, and `facts_unconfirmed` counts the facts after it.
    """

    path: str
    seen: datetime
    open_in: int | None
    epoch: int
    register: tuple[int, int] | None
    checkpoint: int | None
    next_sequence: int
    trusted: datetime
    sealed: bool
    facts_behind: int
    bytes_behind: int
    facts_unconfirmed: int
    pending: int
    next_due: datetime | None
    ready: int
    voided: int
    files: tuple[InspectedFile, ...]
    subjects: tuple[InspectedSubject, ...]
    groups: tuple[InspectedGroup, ...]
    holders: tuple[Holder, ...]
    space: tuple[HeldSpace, ...]
    pins: tuple[str, ...]
    damaged: tuple[str, ...]
    refused: str | None


def inspect(
    path: str | os.PathLike[str],
    *,
    keep_finished: Duration = KEEP_FINISHED,
    keep_finished_of: Mapping[str, Duration] | None = None,
) -> Inspection:
    """Inspects the store in a folder, also while another process has it open.

    It takes no lock, repairs nothing and changes no file. While it reads it sets a pin, if it may write to the
    folder, so that no file is removed. In a damaged store it shows everything that is readable, and `refused` says
    why the store cannot be opened.

    Args:
        path: The folder.
        keep_finished: The retention that the store is opened with. It is not stored in a file, and determines
            `InspectedFile.kept_until`.
        keep_finished_of: Likewise, the retention of single subjects.

    Raises:
        WrongType, InvalidArgument: `path` is not a path, or a retention is refused, as by `open`.
        NotAStore: The folder holds something else.
        NewerFormat: A later release wrote it.
        Corrupt, MissingFile: So much is damaged or missing that the files cannot be identified.
        StorageError: The operating system refused a call.
    """
    folder = folder_of(path)
    keep = RetentionPolicy.made(keep_finished, None, keep_finished_of)
    with errors_named(folder, with_note=True):
        found = _core.inspect(folder, keep.keep_finished_ms, keep.keep_finished_of_ms)
    return Inspection(
        path=folder,
        seen=moment(found.pop("seen_ms")),
        trusted=moment(found.pop("trusted_ms")),
        next_due=moment_or_none(found.pop("next_due_ms")),
        files=tuple(_made(InspectedFile, fields, held_by=tuple(fields["held_by"])) for fields in found.pop("files")),
        subjects=tuple(_made(InspectedSubject, fields) for fields in found.pop("subjects")),
        groups=tuple(
            _made(InspectedGroup, row, consumers=tuple(map(tuple, row["consumers"]))) for row in found.pop("groups")
        ),
        holders=tuple(_made(Holder, fields) for fields in found.pop("holders")),
        space=tuple(HeldSpace(**fields) for fields in found.pop("space")),
        pins=tuple(fields["name"] for fields in found.pop("pins")),
        damaged=tuple(found.pop("damaged")),
        **found,
    )


def _made(kind: Callable[..., Made], fields: dict[str, Any], **more: object) -> Made:
    """An object from a row of the core, whose times are in milliseconds."""
    times = {name: moment_or_none(value) for name, value in fields.items() if name.endswith("_ms")}
    others = {name: value for name, value in fields.items() if name not in times}
    return kind(**others | {name.removesuffix("_ms"): time for name, time in times.items()} | more)
