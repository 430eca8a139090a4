"""Rebuilds the runs of the schedule from the log, a piece in each task, to compare them or to replace them.

A task may run again, or twice at the same time, or be killed: staged runs are not part of the store until they are
adopted, and only the runs of the tasks that succeeded are adopted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow
from pyspark.sql import DataFrame, SparkSession

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
from delaymq.spark.scan import collected

PIECES = (
    "piece int, first_sequence bigint, sequences bigint, run bigint, pending bigint, same bigint, different bigint, "
    "missing bigint, unreadable bigint, kept bigint, vanishing bigint, "
    "examples array<struct<sequence bigint, kind string, words string>>"
)
"""The columns of `pieces_frame`."""

RESULT_SCHEMA = "told string"

Task: TypeAlias = Callable[[int], Iterator[pyarrow.RecordBatch]]
Run: TypeAlias = Callable[[list[int], Task], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The result of a rebuild.

    Attributes:
        store: The folder.
        checkpoint: The number of its checkpoint, or None if the store has none, and no message in a run.
        counts: How all pending messages compare with the existing runs.
        kept: Windows of sequences that are not rebuilt, and why.
        examples: Some of the messages with something wrong, by sequence.
        pieces: The pieces with their results.
        adopted: The result of replacing the runs; None if they were only compared.
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
        """True if nothing was wrong with the existing runs, including those that are not rebuilt."""
        return not self.counts.wrong and all(one.damage is None for one in self.kept)


def rebuild(spark: SparkSession, path: str, planned: Plan | None = None, *, adopts: bool = False) -> Rebuild:
    """Rebuilds the runs of the schedule as of the newest checkpoint, to compare or to replace them.

    If it fails or is killed, the store is unchanged; begin again. Staged runs are removed after a day.

    Args:
        spark: The session.
        path: The store's folder, as each executor sees it. To adopt, executors must be able to write to `loads` in it.
        planned: A plan of `delaymq.rebuilding.plan`, with a task for each piece; None makes one.
        adopts: Replaces the existing runs. No process may have the store open at the end.

    Raises:
        WouldVanish: A pending message would be lost by adopting; nothing was changed.
        Locked: A process has the store open; nothing was changed.
        StoreError: A process had it open meanwhile, so that the rebuilt runs are outdated.
        InvalidArgument, NotAStore, NewerFormat, Corrupt, MissingFile, StorageError: As `delaymq.rebuilding.plan`.
    """
    return rebuilt(path, partial(_collected, spark), planned, adopts=adopts)


def rebuilt(path: str, run: Run, planned: Plan | None = None, *, adopts: bool = False) -> Rebuild:
    """As `rebuild`, with any function that runs tasks.

    Args:
        path: The store's folder.
        run: Runs a task on the index of each piece, and returns the rows of all tasks.
        planned: As for `rebuild`.
        adopts: As for `rebuild`.

    Raises:
        WouldVanish, StoreError, InvalidArgument: As `rebuild`.
    """
    planned = plan(path) if planned is None else planned
    if adopts:
        refuse_open(path)
    task = partial(_rebuilt, path, planned, adopts)  # one object, so that the plan is pickled once
    rows = run([piece.index for piece in planned.pieces], task)
    results = sorted((_parsed(row["told"]) for row in rows), key=lambda one: one.index)
    adopted = _adopted(path, planned, results) if adopts else None
    examples = sorted((one for piece in results for one in piece.examples), key=lambda one: one.sequence)
    return Rebuild(
        store=path,
        checkpoint=planned.checkpoint,
        counts=sum((piece.counts for piece in results), Counts()),
        kept=planned.kept,
        examples=tuple(examples),
        pieces=tuple(zip(planned.pieces, results, strict=True)),
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
            *asdict(results.counts).values(),
            [(one.sequence, one.kind, one.words) for one in results.examples],
        )
        for piece, results in found.pieces
    ]
    return spark.createDataFrame(rows, PIECES)


def _adopted(path: str, planned: Plan, results: Sequence[RebuiltPiece]) -> Adopted:
    try:
        return adopt(path, planned, results)
    except InvalidArgument as error:
        if error.argument != "plan":
            raise
        words = f"somebody opened the store or rebuilt it meanwhile, run it again: {error}; nothing was changed"
        raise StoreError(words, store=path) from error


def _collected(spark: SparkSession, indexes: list[int], task: Task) -> list[dict[str, Any]]:
    """The rows of all tasks."""
    return collected(spark, RESULT_SCHEMA, indexes, task) if indexes else []


def _rebuilt(path: str, plan: Plan, stage: bool, index: int) -> Iterator[pyarrow.RecordBatch]:
    """The work of a task, and its one result row."""
    done = rebuild_piece(path, plan, index, stage=stage)
    try:
        yield pyarrow.RecordBatch.from_pydict({"told": [json.dumps(asdict(done))]})
    except GeneratorExit:  # the result was not read
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
