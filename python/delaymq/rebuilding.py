"""The runs of the schedule made again from the log: to compare them with those that are there, or to replace these.

::

    from delaymq.rebuilding import adopt, plan, rebuild_all

    asked = plan("./data")
    told = rebuild_all("./data", asked)               # compares; the store may be open meanwhile
    pieces = rebuild_all("./data", asked, stage=True)
    adopt("./data", asked, pieces)                    # the store must be closed

It is of the newest checkpoint: what was pending then. A run that is damaged or gone is made again as far as the log has
its messages; what the log has retired is taken out of the run, where that is whole. Pieces can be rebuilt by any
process that sees the folder, in any order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Final, Literal, Self, cast

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.recovery import folder_of
from delaymq.errors import StorageError, StoreError, WouldVanish
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
"""Sequences of a piece at most: who rebuilds it takes some 200 bytes of memory for each."""

Kind = Literal["vanishing", "missing", "different", "unreadable"]
"""What can be wrong with a message: it is whole nowhere; its run has no row of it, or another one; its row or its
payload cannot be read there, and the log has it."""

SEQUENCES_OF_WORD = 32
"""What became of so many stands in one word of a checkpoint."""

SEQUENCES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a plan, which becomes one run.

    Attributes:
        index: Its place in the plan, from 0.
        first_sequence: The first sequence of its window.
        sequences: How many sequences that has, whether they are pending or not.
        run: The number that its run would have.
    """

    index: int
    first_sequence: int
    sequences: int
    run: int


@dataclass(frozen=True, slots=True)
class KeptWindow:
    """A stretch of sequences that stays as it is.

    Attributes:
        first_sequence: The first of them.
        sequences: How many there are.
        why: Why it stays.
        damage: Why its run cannot be opened, so that its messages are nowhere; None where it can be.
    """

    first_sequence: int
    sequences: int
    why: str
    damage: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be rebuilt, as of one checkpoint. It can be pickled.

    Attributes:
        content: What the core knows it by.
        checkpoint: The number of its checkpoint; None where the store has none. Then nothing of it is in runs, and an
            opening applies the whole log.
        pieces: What can be rebuilt, in order; none where the store has no checkpoint yet.
        kept: What stays as it is.
    """

    content: bytes
    checkpoint: int | None
    pieces: tuple[Piece, ...]
    kept: tuple[KeptWindow, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many pending messages are what. One that has two rows in its run is `different`, too.

    Attributes:
        pending: All of them.
        same: Its run says what the log says, byte for byte.
        different: It says something else.
        missing: Its run has no row of it.
        unreadable: Its row or its payload cannot be read in its run, and is found elsewhere.
        kept: The log has it no more, or is damaged there, and its run has it whole: there is nothing to compare with.
        vanishing: It is whole nowhere.
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
        """With how many something is wrong."""
        return self.different + self.missing + self.unreadable + self.vanishing

    def __add__(self, other: Counts) -> Counts:
        """The sums of both."""
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts)))


@dataclass(frozen=True, slots=True)
class Example:
    """A message with which something is wrong.

    Attributes:
        sequence: Its sequence.
        kind: What is wrong.
        words: The same in words, with the file.
    """

    sequence: int
    kind: Kind
    words: str


@dataclass(frozen=True, slots=True)
class RebuiltPiece:
    """What came of a piece. It can be pickled, and is made of what JSON has.

    Attributes:
        index: Its place in the plan.
        counts: How its messages compare with the run that is there.
        examples: Some of those with which something is wrong, the worst first.
        staged: Its run, which lies beside the store; None where none was wanted, or nothing is pending.
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
        """As the core says it."""
        named = tuple(Example(sequence, cast("Kind", kind), words) for sequence, kind, words in examples)
        return cls(index, Counts(**counts), named, None if staged is None else StagedRun(*staged))


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was put in the place of what was there.

    Attributes:
        runs: How many runs.
        messages: How many pending messages they have.
    """

    runs: int
    messages: int


def plan(path: str | os.PathLike[str], *, piece_sequences: int = PIECE_SEQUENCES) -> Plan:
    """Says what can be rebuilt, as of the newest checkpoint. The store may be open, and may be one that `open` refuses.

    Retention removes nothing that the plan needs for an hour, where this process may write to the folder.

    Args:
        path: The store's folder.
        piece_sequences: Sequences of a piece at most, a multiple of 32: smaller ones need less memory, and each reads
            the log from its own messages on.

    Raises:
        WrongType, InvalidArgument: An argument is refused.
        NotAStore, NewerFormat: The folder holds something else, or is of a later release.
        Corrupt: No checkpoint can be read: `delaymq salvage` is for that.
        StorageError: The operating system refused a call.
    """
    folder = folder_of(path)
    if isinstance(piece_sequences, bool) or not isinstance(cast("object", piece_sequences), int):
        raise wrong_type("piece_sequences", "an int", piece_sequences)
    if piece_sequences % SEQUENCES_OF_WORD or not 0 < piece_sequences <= PIECE_SEQUENCES:
        expected = f"a multiple of {SEQUENCES_OF_WORD} up to {PIECE_SEQUENCES}"
        raise refused("piece_sequences", expected, piece_sequences)
    with _Named(folder):
        content, checkpoint, pieces, kept = _core.rebuild_plan(folder, piece_sequences)
    return Plan(
        content, checkpoint, tuple(Piece(*piece) for piece in pieces), tuple(KeptWindow(*window) for window in kept)
    )


def rebuild(path: str | os.PathLike[str], plan: Plan, index: int, *, stage: bool = False) -> RebuiltPiece:
    """Makes the run of one piece again, and compares it with the one that is there. The store may be open.

    Args:
        path: The store's folder.
        plan: What `plan` said of it, in any process.
        index: Which piece.
        stage: Writes the run beside the store, for `adopt`. Nothing of the store changes by that, and what nobody
            adopts is removed after a day.

    Raises:
        WrongType, InvalidArgument: An argument is refused, or the store has another checkpoint by now and not the
            plan's any more; `argument` says which.
        NotAStore, NewerFormat, Corrupt: As `plan`.
        StorageError: The operating system refused a call; `DiskFull` where there is no room.
    """
    folder = folder_of(path)
    checked = _plan_of(plan)
    if isinstance(index, bool) or not isinstance(cast("object", index), int):
        raise wrong_type("index", "an int", index)
    if not 0 <= index < len(checked.pieces):
        raise refused("index", f"a piece of the plan, which has {len(checked.pieces)}", index)
    with _Named(folder):
        return RebuiltPiece.told(index, *_core.rebuild_piece(folder, checked.content, index, stage))


def rebuild_all(path: str | os.PathLike[str], plan: Plan, *, stage: bool = False) -> tuple[RebuiltPiece, ...]:
    """Does so with each piece, one after the other, in this process.

    Raises:
        DelaymqError: As `rebuild`; what was staged is removed.
    """
    found: list[RebuiltPiece] = []
    try:
        for piece in _plan_of(plan).pieces:
            found.append(rebuild(path, plan, piece.index, stage=stage))  # noqa: PERF401 - what was staged is known
    except BaseException:
        _let_go(path, found)
        raise
    return tuple(found)


def adopt(path: str | os.PathLike[str], plan: Plan, pieces: Iterable[RebuiltPiece]) -> Adopted:
    """Puts the rebuilt runs in the place of those that are there, all of them or none.

    All bytes of them are read first. Where it raises, the store is as it was, but that a StorageError may come when all
    was done; what was staged is removed, so that it begins with a plan again.

    Args:
        path: The store's folder; nobody may have the store open.
        plan: What `plan` said of it.
        pieces: What came of all its pieces, staged.

    Raises:
        WrongType, InvalidArgument: An argument is refused, a piece is missing, or the store has another checkpoint by
            now than the plan is of; `argument` says which.
        WouldVanish: Something that is pending would be gone.
        Locked: Somebody has the store open.
        MissingFile, Corrupt: What was staged is not as it was told, or something that stays cannot be read.
        NotAStore, NewerFormat, StorageError: As `plan`.
    """
    folder, checked, told = folder_of(path), _plan_of(plan), _checked(pieces)
    try:
        refuse_vanishing(told)
        with _Named(folder):
            runs, messages = _core.adopt_rebuilt(folder, checked.content, [_named(piece) for piece in told])
    except BaseException:
        _let_go(folder, told)
        raise
    # What is adopted has moved; what is left is of no use where somebody else adopted the same.
    _let_go(folder, told)
    return Adopted(runs, messages)


def refuse_open(path: str | os.PathLike[str]) -> None:
    """Looks whether somebody has the store open, so that nothing is staged in vain.

    Raises:
        Locked: Somebody has.
        NotAStore, StorageError: As `plan`.
    """
    folder = folder_of(path)
    with _Named(folder):
        _core.refuse_open(folder)


def refuse_vanishing(pieces: Iterable[RebuiltPiece]) -> None:
    """Looks whether all that is pending is in what was rebuilt.

    Raises:
        WouldVanish: It is not.
    """
    told = list(pieces)
    count = sum(piece.counts.vanishing for piece in told)
    if count:
        gone = [one for piece in told for one in piece.examples if one.kind == "vanishing"]
        sequences = tuple(one.sequence for one in gone)
        shown = ", ".join(str(sequence) for sequence in sequences[:SEQUENCES_SHOWN])
        words = f"{count:,} pending messages are whole nowhere and would vanish: sequence {shown}"
        more = " and others" if count > len(sequences[:SEQUENCES_SHOWN]) else ""
        why = f": {gone[0].words}" if gone else ""
        raise WouldVanish(f"{words}{more}{why}; nothing was changed", count=count, sequences=sequences)


def discard_pieces(path: str | os.PathLike[str], pieces: Iterable[RebuiltPiece]) -> None:
    """Removes what was staged and will not be adopted. What is gone already is fine.

    Raises:
        StorageError: A file could not be removed; it goes after a day.
    """
    discard(path, [piece.staged for piece in pieces if piece.staged is not None])


def _let_go(path: str | os.PathLike[str], pieces: Iterable[RebuiltPiece]) -> None:
    """Removes what can be removed of it. The rest goes after a day, and hides nothing that is being raised."""
    with suppress(StorageError):
        discard_pieces(path, pieces)


def _plan_of(found: object) -> Plan:
    if not isinstance(found, Plan):
        raise wrong_type("plan", "a Plan", found)
    return found


def _checked(found: Iterable[RebuiltPiece]) -> Sequence[RebuiltPiece]:
    told = list(found)
    for place, piece in enumerate(told):
        if not isinstance(cast("object", piece), RebuiltPiece):
            raise wrong_type("pieces", "RebuiltPieces", piece)
        if piece.staged is not None:
            checked_run(piece.staged, "pieces", place)
    return told


def _named(piece: RebuiltPiece) -> tuple[int, tuple[str, int, int, int] | None]:
    run = piece.staged
    return piece.index, None if run is None else (run.name, run.bytes, run.digest, run.rows)


class _Named:
    """Errors of the core name the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StoreError):
            error.store = self._folder
