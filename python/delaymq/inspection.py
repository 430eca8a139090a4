"""PendingQueries at a store without its lock, also while another process has it open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delaymq import _core
from delaymq._store.recovery import KEEP_FINISHED, folder_of
from delaymq._store.retention import RetentionPolicy
from delaymq.durations import Duration, moment, moment_or_none
from delaymq.errors import StoreError

__all__ = ["HeldSpace", "Holder", "InspectedFile", "InspectedGroup", "InspectedSubject", "Inspection", "inspect"]


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """One file of a store.

    Attributes:
        path: Its path, relative to the store.
        kind: segment, preparing, schedule_run, dispatch_run, unused_run, checkpoint, aside, pin or other.
        bytes: Its length.
        hole_bytes: Bytes of it that are holes: finished, and given back to the disk once two checkpoints know of it; or
            prepared, never used, and given back by the opening that came after it.
        rows: Messages of a run; 0 for everything else.
        unfinished: Those of them that are not finished.
        pending: Pending messages whose payloads lie in it.
        written: When it was written last, UTC, of segments and runs that nothing is added to; else None.
        kept_until: Until when it is kept for its age, UTC, by what `inspect` was told of how long files are kept, which
            may be over; None for what is written to, and for all that is no segment or run.
        kept_for: The subject that it is kept so long for, or None, where it is `keep_finished`, or not known whose
            messages it has.
        held_by: Who needs it, as places in `Inspection.holders`: the first 16 of them.
        held_by_count: How many need it.
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
        pending: Messages that wait for their time.
        next_due: When the first of them is due, UTC, or None.
        ready: Messages that became due and that some group has not finished.
        next_number: How many messages have become ready, ever.
        groups: How many groups it has.
    """

    name: str
    pending: int
    next_due: datetime | None
    ready: int
    next_number: int
    groups: int


@dataclass(frozen=True, slots=True)
class InspectedGroup:
    """One group of a subject.

    Attributes:
        subject: Its subject.
        name: Its name.
        cursor: The next number that it has never assigned.
        next_number: The number that the subject's next ready message gets.
        lag: Ready messages that it has not finished.
        in_flight: Those of them that a consumer holds.
        start: The ready number that it began with.
        dead_letters: Its dead letters.
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
    """Someone who needs files: the log from a segment on, and runs.

    Attributes:
        kind: `group`: it has not finished messages that lie there; `dead_letters`: dead letters of a
            group; `no_group`: ready messages that no group consumes; `pending`: messages that wait;
            `replay`: what an open applies; `pin`: a reader without the lock, under whom nothing is
            removed; `archive`: an archive that is waited for and has not got it yet; `checkpoint`: an open
            may start from it.
        subject: The subject, or None.
        group: The group, or None.
        consumers: How many consume for the group, or None. With 0, in a store that is open, nobody does for
            now, and what it holds does not come back by itself. A consumer with a lasting name may be gone; to a
            store that is closed nobody can be connected.
        consumer_ended: When the last of its consumers ended, UTC, or None where none has, as far as is known.
        number: The number of the run or checkpoint, or None; None too for what came after the last
            checkpoint.
        pin: The name of the file of the pin, or of the archive's mark, or None.
        expires: When the pin ends by itself, UTC, or None.
        messages: How many messages; 0 where that is no matter of messages.
        segment: The oldest segment that is needed, or None where only runs are.
        begun: When that segment began, UTC, or None.
        bytes: Bytes of the log from there on, and of the runs.
        alone: Those of them that nobody else needs: they come back once they are older than `keep_finished`,
            two checkpoints after this holder is gone. What a group gave back and its dead letters end with it, so
            what they need counts for it, too. 0 for a checkpoint, which goes by itself.
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
    """How much is held for one reason.

    Attributes:
        reason: `dead_group`: groups that nobody consumes for; `group`: other groups; `dead_letters`,
            `no_group`, `pending`, `replay`, `pin`, `archive`: as in `Holder.kind`; `finished`: nothing
            unfinished, it goes when it is old enough; `upkeep`: checkpoints and prepared segments; `aside`:
            what repairs kept.
        holders: How many hold it so.
        bytes: Bytes; what is held for several reasons counts for each.
        alone: Those of them that are held for no other reason.
    """

    reason: str
    holders: int
    bytes: int
    alone: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """A store as of the last fact that was visible when it was looked at.

    Attributes:
        path: The store's folder.
        seen: When it was looked at, UTC.
        open_in: The process that has it open, or None; also None where the system does not tell.
        epoch: How often it was opened for writing.
        checkpoint: The number of the newest checkpoint, or None.
        next_sequence: The sequence behind the last fact that was read.
        trusted: The store's own clock at that fact, UTC.
        sealed: True where the store was closed in good order.
        facts_behind: Facts that an open would apply behind the checkpoint.
        bytes_behind: Bytes of them in the log.
        facts_unconfirmed: Facts on their way, or left by a crash for the next open to judge; they
            are counted nowhere else.
        pending: Messages that wait for their time.
        next_due: When the first of them is due, UTC, or None.
        ready: Messages that became due and that some group has not finished.
        voided: Messages given up because their bytes were damaged.
        files: Every file.
        subjects: Every subject.
        groups: Every group.
        holders: Who needs which files, who needs the oldest of the log first.
        space: How much is held for which reason.
        pins: Readers, by the names of their pins, that keep every file where it is.
        damaged: What could not be read or is missing, in words.
        refused: Why `delaymq.open` would refuse the store, or None. Everything above is then as of the
            last fact before the first that is lost, and `facts_unconfirmed` counts those behind it.
    """

    path: str
    seen: datetime
    open_in: int | None
    epoch: int
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
    """Looks at the store in a folder, also while another process has it open.

    Takes no lock, repairs nothing and changes no file; while it reads it leaves a pin, so that no
    file goes away under it, where it may write to the folder. Of a damaged store it shows what can be
    read, and `refused` says why it cannot be opened.

    Args:
        path: The folder.
        keep_finished: As whoever opens the store says it, which stands in no file: by it
            `InspectedFile.kept_until` is told.
        keep_finished_of: The same.

    Raises:
        WrongType, InvalidArgument: `path` is not a path; how long files are kept is refused as by `open`.
        NotAStore: The folder holds something else.
        NewerFormat: A later release wrote it.
        Corrupt, MissingFile: So much is damaged or gone that nothing says whose files these are.
        StorageError: The operating system refused a call.
    """
    folder = folder_of(path)
    keep = RetentionPolicy.made(keep_finished, None, keep_finished_of)
    try:
        found = _core.inspect(folder, keep.keep_finished_ms, keep.keep_finished_of_ms)
    except StoreError as error:
        error.store = folder
        error.add_note(f"the store is {folder}")
        raise
    return Inspection(
        path=folder,
        seen=moment(found.pop("seen_ms")),
        trusted=moment(found.pop("trusted_ms")),
        next_due=moment_or_none(found.pop("next_due_ms")),
        files=tuple(_file(fields) for fields in found.pop("files")),
        subjects=tuple(_subject(fields) for fields in found.pop("subjects")),
        groups=tuple(_group(fields) for fields in found.pop("groups")),
        holders=tuple(_holder(fields) for fields in found.pop("holders")),
        space=tuple(HeldSpace(**fields) for fields in found.pop("space")),
        pins=tuple(fields["name"] for fields in found.pop("pins")),
        damaged=tuple(found.pop("damaged")),
        **found,
    )


def _file(fields: dict[str, Any]) -> InspectedFile:
    held_by = tuple(fields.pop("held_by"))
    for name in ("written", "kept_until"):
        fields[name] = moment_or_none(fields.pop(f"{name}_ms"))
    return InspectedFile(held_by=held_by, **fields)


def _holder(fields: dict[str, Any]) -> Holder:
    for name in ("consumer_ended", "expires", "begun"):
        fields[name] = moment_or_none(fields.pop(f"{name}_ms"))
    return Holder(**fields)


def _subject(fields: dict[str, Any]) -> InspectedSubject:
    return InspectedSubject(next_due=moment_or_none(fields.pop("next_due_ms")), **fields)


def _group(fields: dict[str, Any]) -> InspectedGroup:
    return InspectedGroup(consumers=tuple(map(tuple, fields.pop("consumers"))), **fields)
