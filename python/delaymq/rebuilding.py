"""Rebuilds the runs of the schedule from the log, to compare them with the existing runs or to replace these.

::

    from delaymq.rebuilding import adopt, plan, rebuild_all

    planned = plan("./data")
    compared = rebuild_all("./data", planned)          # compares; the store may be open meanwhile
    pieces = rebuild_all("./data", planned, stage=True)
    adopt("./data", planned, pieces)                   # the store must be closed

The result is as of the newest checkpoint: the messages that were pending then. A damaged or missing run is rebuilt
from the messages that the log still has; messages that were retired from the log are taken from the run, if it is
intact. Pieces can be rebuilt by any process that sees the folder, in any order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Final, Literal, Self, cast

from delaymq import _core
from delaymq._arguments.argument_errors import checked_int, refused, wrong_type
from delaymq._store.recovery import errors_named, folder_of
from delaymq.errors import StorageError, WouldVanish
from delaymq.loading import RUN_ROWS_MAX, StagedRun, checked_run, discard

__all__ = [
    "PIECE_SEQUENCES",
    "Adopted",
    "Counts",
    "Example",
    "KeptWindow",
    "Kind",
    "Piece",
    "Plan",
    "RebuiltPiece",
    "adopt",
    "discard_pieces",
    "plan",
    "rebuild",
    "rebuild_all",
    "refuse_open",
]

PIECE_SEQUENCES: Final = RUN_ROWS_MAX
"""The maximum number of sequences in a piece; rebuilding takes about 200 bytes of memory for each."""

Kind = Literal["vanishing", "missing", "different", "unreadable"]
"""Kinds of problems with a message: it is intact nowhere; its run has no row for it, or a different one; its row or
payload is unreadable there, and the log has it.
"""

SEQUENCES_OF_WORD = 32
"""The number of sequences whose state is in one word of a checkpoint."""

SEQUENCES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a plan, which becomes one run.

    Attributes:
        index: Its place in the plan, from 0.
        first_sequence: The first sequence of its window.
        sequences: The number of sequences in the window, whether they are pending or not.
        run: The number of its run.
    """

    index: int
    first_sequence: int
    sequences: int
    run: int


@dataclass(frozen=True, slots=True)
class KeptWindow:
    """A window of sequences that is not rebuilt.

    Attributes:
        first_sequence: The first sequence of the window.
        sequences: The number of sequences.
        why: Why it is not rebuilt.
        damage: Why its run cannot be opened, so that its messages are nowhere; None if it can be.
    """

    first_sequence: int
    sequences: int
    why: str
    damage: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The pieces to rebuild, as of one checkpoint. It can be pickled.

    Attributes:
        content: The plan, encoded for the core.
        checkpoint: The number of its checkpoint, or None if the store has none. Without a checkpoint no message is in
            a run, and an open applies the whole log.
        pieces: The pieces that can be rebuilt, in order; empty without a checkpoint.
        kept: The windows that are not rebuilt.
    """

    content: bytes
    checkpoint: int | None
    pieces: tuple[Piece, ...]
    kept: tuple[KeptWindow, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of pending messages by comparison result. A message with two rows in its run counts as `different`, too.

    Attributes:
        pending: All pending messages.
        same: Run and log agree, byte for byte.
        different: Run and log differ.
        missing: The run has no row for it.
        unreadable: Its row or payload in the run is unreadable, and is found elsewhere.
        kept: The run has it intact, but the log does not have it any more, or is damaged there: it cannot be compared.
        vanishing: It is intact nowhere.
    """

    pending: int = 0
    same: int = 0
    different: int = 0
    missing: int = 0
    unreadable: int = 0
    kept: int = 0
    vanishing: int = 0

    @property
    def wrong(self) -> int:
        """The number of messages with something wrong."""
        return self.different + self.missing + self.unreadable + self.vanishing

    def __add__(self, other: Counts) -> Counts:
        """The sums of both."""
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts)))


@dataclass(frozen=True, slots=True)
class Example:
    """A message with something wrong.

    Attributes:
        sequence: Its sequence.
        kind: The kind of problem.
        words: The same in words, with the file.
    """

    sequence: int
    kind: Kind
    words: str


@dataclass(frozen=True, slots=True)
class RebuiltPiece:
    """The result of rebuilding a piece. It can be pickled, and consists of values that JSON has.

    Attributes:
        index: Its place in the plan.
        counts: How its messages compare with the existing run.
        examples: Some of the messages with something wrong, the worst first.
        staged: Its staged run; None if none was requested, or no message is pending.
    """

    index: int
    counts: Counts
    examples: tuple[Example, ...]
    staged: StagedRun | None

    @classmethod
    def told(
        cls,
        index: int,
        counts: dict[str, int],
        examples: Iterable[tuple[int, str, str]],
        staged: tuple[str, int, int, int] | None,
    ) -> Self:
        """From the answer of the core."""
        named = tuple(Example(sequence, cast("Kind", kind), words) for sequence, kind, words in examples)
        return cls(index, Counts(**counts), named, None if staged is None else StagedRun(*staged))


@dataclass(frozen=True, slots=True)
class Adopted:
    """The result of replacing runs.

    Attributes:
        runs: The number of runs.
        messages: The number of pending messages in them.
    """

    runs: int
    messages: int


def plan(path: str | os.PathLike[str], *, piece_sequences: int = PIECE_SEQUENCES) -> Plan:
    """Plans what to rebuild, as of the newest checkpoint. The store may be open, and may be one that `open` refuses.

    If the folder is writable, a pin keeps all files that the plan needs for an hour.

    Args:
        path: The store's folder.
        piece_sequences: The maximum number of sequences in a piece, a multiple of 32. Smaller pieces need less
            memory, but each piece reads the log from its own messages on.

    Raises:
        WrongType, InvalidArgument: An argument is refused.
        NotAStore, NewerFormat: The folder holds something else, or a later release wrote it.
        Corrupt: No checkpoint is readable; use `delaymq salvage`.
        StorageError: The operating system refused a call.
    """
    folder = folder_of(path)
    expected = f"a multiple of {SEQUENCES_OF_WORD} up to {PIECE_SEQUENCES}"
    if checked_int("piece_sequences", piece_sequences, 1, PIECE_SEQUENCES, expected=expected) % SEQUENCES_OF_WORD:
        raise refused("piece_sequences", expected, piece_sequences)
    with errors_named(folder):
        content, checkpoint, pieces, kept = _core.rebuild_plan(folder, piece_sequences)
    return Plan(
        content, checkpoint, tuple(Piece(*piece) for piece in pieces), tuple(KeptWindow(*window) for window in kept)
    )


def rebuild(path: str | os.PathLike[str], plan: Plan, index: int, *, stage: bool = False) -> RebuiltPiece:
    """Rebuilds the run of one piece, and compares it with the existing one. The store may be open.

    Args:
        path: The store's folder.
        plan: A plan of this store, made in any process.
        index: The place of the piece in the plan.
        stage: True writes the run beside the store, for `adopt`. The store does not change, and a run that
            is not adopted is removed after a day.

    Raises:
        WrongType, InvalidArgument: An argument is refused, or the store does not have the checkpoint of the plan any
            more; `argument` says which.
        NotAStore, NewerFormat, Corrupt: As `plan`.
        StorageError: The operating system refused a call; `DiskFull` if there is no room.
    """
    folder = folder_of(path)
    checked = _plan_of(plan)
    count = len(checked.pieces)
    checked_int("index", index, 0, count - 1, expected=f"a piece of the plan, which has {count}")
    with errors_named(folder):
        return RebuiltPiece.told(index, *_core.rebuild_piece(folder, checked.content, index, stage))


def rebuild_all(path: str | os.PathLike[str], plan: Plan, *, stage: bool = False) -> tuple[RebuiltPiece, ...]:
    """Rebuilds all pieces, one after the other, in this process.

    Raises:
        DelaymqError: As `rebuild`; runs that were staged are removed.
    """
    found: list[RebuiltPiece] = []
    try:
        for piece in _plan_of(plan).pieces:
            found.append(rebuild(path, plan, piece.index, stage=stage))  # noqa: PERF401 - what was staged is known
    except BaseException:
        _discard_quietly(path, found)
        raise
    return tuple(found)


def adopt(path: str | os.PathLike[str], plan: Plan, pieces: Iterable[RebuiltPiece]) -> Adopted:
    """Replaces the existing runs by rebuilt ones, all or none.

    All bytes of the rebuilt runs are read first. After an error the store is unchanged, except that a StorageError may
    be raised after everything was done. Staged runs are removed, so begin with a new plan.

    Args:
        path: The store's folder; no process may have the store open.
        plan: A plan of this store.
        pieces: The results of all pieces, staged.

    Raises:
        WrongType, InvalidArgument: An argument is refused, a piece is missing, or the store has a newer checkpoint
            than the plan; `argument` says which.
        WouldVanish: A pending message would be lost.
        Locked: A process has the store open.
        MissingFile, Corrupt: A staged run has changed, or a run that is kept is unreadable.
        NotAStore, NewerFormat, StorageError: As `plan`.
    """
    folder, checked, checked_pieces = folder_of(path), _plan_of(plan), _checked(pieces)
    try:
        refuse_vanishing(checked_pieces)
        with errors_named(folder):
            runs, messages = _core.adopt_rebuilt(folder, checked.content, [_named(piece) for piece in checked_pieces])
    except BaseException:
        _discard_quietly(folder, checked_pieces)
        raise
    # Adopted runs have moved; runs that remain are of no use if another process adopted the same plan.
    _discard_quietly(folder, checked_pieces)
    return Adopted(runs, messages)


def refuse_open(path: str | os.PathLike[str]) -> None:
    """Refuses a store that is open, so that nothing is staged in vain.

    Raises:
        Locked: A process has the store open.
        NotAStore, StorageError: As `plan`.
    """
    folder = folder_of(path)
    with errors_named(folder):
        _core.refuse_open(folder)


def refuse_vanishing(pieces: Iterable[RebuiltPiece]) -> None:
    """Refuses pieces that lack a pending message.

    Raises:
        WouldVanish: They do.
    """
    checked_pieces = list(pieces)
    count = sum(piece.counts.vanishing for piece in checked_pieces)
    if count:
        gone = [one for piece in checked_pieces for one in piece.examples if one.kind == "vanishing"]
        sequences = tuple(one.sequence for one in gone)
        shown = ", ".join(str(sequence) for sequence in sequences[:SEQUENCES_SHOWN])
        words = f"{count:,} pending messages are whole nowhere and would vanish: sequence {shown}"
        more = " and others" if count > len(sequences[:SEQUENCES_SHOWN]) else ""
        why = f": {gone[0].words}" if gone else ""
        raise WouldVanish(f"{words}{more}{why}; nothing was changed", count=count, sequences=sequences)


def discard_pieces(path: str | os.PathLike[str], pieces: Iterable[RebuiltPiece]) -> None:
    """Removes staged runs that will not be adopted. A run that is missing already is ignored.

    Raises:
        StorageError: A file could not be removed; it is removed after a day.
    """
    discard(path, [piece.staged for piece in pieces if piece.staged is not None])


def _discard_quietly(path: str | os.PathLike[str], pieces: Iterable[RebuiltPiece]) -> None:
    """Removes staged runs as far as possible, without hiding an error; the rest goes after a day."""
    with suppress(StorageError):
        discard_pieces(path, pieces)


def _plan_of(found: object) -> Plan:
    if not isinstance(found, Plan):
        raise wrong_type("plan", "a Plan", found)
    return found


def _checked(found: Iterable[RebuiltPiece]) -> Sequence[RebuiltPiece]:
    checked_pieces = list(found)
    for place, piece in enumerate(checked_pieces):
        if not isinstance(cast("object", piece), RebuiltPiece):
            raise wrong_type("pieces", "RebuiltPieces", piece)
        if piece.staged is not None:
            checked_run(piece.staged, "pieces", place)
    return checked_pieces


def _named(piece: RebuiltPiece) -> tuple[int, tuple[str, int, int, int] | None]:
    run = piece.staged
    return piece.index, None if run is None else (run.name, run.bytes, run.digest, run.rows)
