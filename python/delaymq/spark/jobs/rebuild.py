"""The runs of the schedule made again from the log, a piece in each task: compared with what is there, or adopted.

A task may be run again, or twice at the same time, or be killed: what it staged is no part of the store before an
adoption names it, and only what the tasks that won have told is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow

from delaymq.errors import InvalidArgument, StoreError
from delaymq.loading import StagedRun
from delaymq.rebuilding import (
    Adopted,
    Counts,
    Example,
    KeptWindow,
    Piece,
    Plan,
    RebuiltPiece,
    adopt,
    discard_pieces,
    plan,
    refuse_open,
)
from delaymq.rebuilding import rebuild as rebuild_piece
from delaymq.spark.scan import map_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PIECES", "Rebuild", "pieces_frame", "rebuild", "rebuilt"]

PIECES = (
    "piece int, first_sequence bigint, sequences bigint, run bigint, pending bigint, same bigint, different bigint, "
    "missing bigint, unreadable bigint, kept bigint, vanishing bigint, "
    "examples array<struct<sequence bigint, kind string, words string>>"
)
"""The columns of `pieces_frame`."""

TOLD = "told string"

Task: TypeAlias = Callable[[int], Iterator[pyarrow.RecordBatch]]
Run: TypeAlias = Callable[[list[int], Task], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What a rebuild came to.

    Attributes:
        store: The folder.
        checkpoint: The number of the checkpoint that it is of; None where the store has none, and nothing in runs.
        counts: How all that was pending compares with the runs that were there.
        kept: Stretches of sequences that stay as they are, and why.
        examples: Some of the messages with which something was wrong, by sequence.
        pieces: The pieces, each with what came of it.
        adopted: What was put in the place of what was there; None where it was only compared.
    """

    store: str
    checkpoint: int | None
    counts: Counts
    kept: tuple[KeptWindow, ...]
    examples: tuple[Example, ...]
    pieces: tuple[tuple[Piece, RebuiltPiece], ...]
    adopted: Adopted | None

    @property
    def is_clean(self) -> bool:
        """True where nothing was wrong with what was there, also with what stays as it is."""
        return not self.counts.wrong and all(one.damage is None for one in self.kept)


def rebuild(spark: SparkSession, path: str, planned: Plan | None = None, *, adopts: bool = False) -> Rebuild:
    """Makes the runs of the schedule again from the log, as of the newest checkpoint, and compares them with those that
    are there; or puts them in their place, all of them or none.

    Where it fails or is killed, the store is as it was, and the same again begins anew. What was staged meanwhile goes
    after a day.

    Args:
        spark: The session.
        path: The store's folder, as each executor sees it; executors need to write into its folder `loads` to adopt.
        planned: What `delaymq.rebuilding.plan` said of it, a task for each piece; None makes one.
        adopts: Puts them in the place of what is there. Nobody may have the store open at the end of it.

    Raises:
        WouldVanish: Something that is pending would be gone by adopting; nothing was changed.
        Locked: Somebody has the store open; nothing was changed.
        StoreError: Somebody had it open meanwhile, so that what was rebuilt is not of now any more.
        InvalidArgument, NotAStore, NewerFormat, Corrupt, MissingFile, StorageError: As `delaymq.rebuilding.plan`.
    """
    return rebuilt(path, partial(_collected, spark), planned, adopts=adopts)


def rebuilt(path: str, run: Run, planned: Plan | None = None, *, adopts: bool = False) -> Rebuild:
    """The same with whatever runs tasks.

    Args:
        path: The store's folder.
        run: Runs a task on the index of each piece, and gives all rows that they told.
        planned: As for `rebuild`.
        adopts: As for `rebuild`.

    Raises:
        WouldVanish, StoreError, InvalidArgument: As `rebuild`.
    """
    planned = plan(path) if planned is None else planned
    if adopts:
        refuse_open(path)
    task = partial(_rebuilt, path, planned, adopts)  # one plan, not one for each piece
    rows = run([piece.index for piece in planned.pieces], task)
    told = sorted((_parsed(row["told"]) for row in rows), key=lambda one: one.index)
    adopted = _adopted(path, planned, told) if adopts else None
    examples = sorted((one for piece in told for one in piece.examples), key=lambda one: one.sequence)
    return Rebuild(
        store=path,
        checkpoint=planned.checkpoint,
        counts=sum((piece.counts for piece in told), Counts()),
        kept=planned.kept,
        examples=tuple(examples),
        pieces=tuple(zip(planned.pieces, told, strict=True)),
        adopted=adopted,
    )


def pieces_frame(spark: SparkSession, found: Rebuild) -> DataFrame:
    """The pieces as a DataFrame, a row for each."""
    rows = [
        (
            piece.index,
            piece.first_sequence,
            piece.sequences,
            piece.run,
            *asdict(told.counts).values(),
            [(one.sequence, one.kind, one.words) for one in told.examples],
        )
        for piece, told in found.pieces
    ]
    return spark.createDataFrame(rows, PIECES)


def _adopted(path: str, planned: Plan, told: Sequence[RebuiltPiece]) -> Adopted:
    try:
        return adopt(path, planned, told)
    except InvalidArgument as error:
        if error.argument != "plan":
            raise
        words = f"somebody opened the store or rebuilt it meanwhile, run it again: {error}; nothing was changed"
        raise StoreError(words, store=path) from error


def _collected(spark: SparkSession, asked: list[int], task: Task) -> list[dict[str, Any]]:
    """What tasks tell; of nothing where nothing is asked."""
    if not asked:
        return []
    table: Any = map_parts(spark, asked, task, TOLD).toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _rebuilt(path: str, plan: Plan, stage: bool, index: int) -> Iterator[pyarrow.RecordBatch]:
    """What a task does, and the one row that it tells."""
    done = rebuild_piece(path, plan, index, stage=stage)
    try:
        yield pyarrow.RecordBatch.from_pydict({"told": [json.dumps(asdict(done))]})
    except GeneratorExit:  # nobody took it
        discard_pieces(path, [done])
        raise


def _parsed(text: str) -> RebuiltPiece:
    fields = json.loads(text)
    run = fields["staged"]
    return RebuiltPiece(
        index=fields["index"],
        counts=Counts(**fields["counts"]),
        examples=tuple(Example(**one) for one in fields["examples"]),
        staged=None if run is None else StagedRun(**run),
    )
