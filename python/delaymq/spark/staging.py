"""What a task of a load does: it stages its rows beside the stores that they are for.

A task may be run again, or twice at the same time, or be killed: what it staged is no part of a store before a load
names it, and only what the tasks that won have told is named.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self
from urllib.parse import quote

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from delaymq.errors import StorageError
from delaymq.loading import BadRow, StagedRun, Stager, discard, stage

__all__ = ["StagedRows", "StagingRules", "check_columns", "discard_staged", "put_in_place", "staged"]

ASIDE_S_MAX = 86_400
"""As long as what nobody adopted is kept beside a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingRules:
    """What tasks are told.

    Attributes:
        paths: The folders of the stores, which executors see under these paths.
        store_column: The column that says for which of them a row is, from 0; not needed for one.
        broken_column: The column that has a line which could not be read as a row; None where rows are no lines.
        bad_rows: The folder for rows that are no messages, as Parquet; None fails with the first one.
        ignore_others: Columns that a message does not have are let be.
        due_before: No message is due later than this; None is ten years from now.
    """

    paths: tuple[str, ...]
    store_column: str | None = None
    broken_column: str | None = None
    bad_rows: str | None = None
    ignore_others: bool = False
    due_before: datetime | None = None

    @property
    def own_columns(self) -> list[str]:
        """Columns that are none of a message, and have a meaning here."""
        return [name for name in (self.store_column, self.broken_column) if name is not None]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What one task staged.

    Attributes:
        runs: For each store, what it is to adopt.
        rows: How many rows the task had.
        bad: How many of them are no messages.
        aside: The file of those in the folder for them, which nobody reads yet.
    """

    runs: tuple[tuple[StagedRun, ...], ...]
    rows: int
    bad: int
    aside: str | None


def check_columns(rules: StagingRules, schema: pyarrow.Schema) -> None:
    """Refuses wrong columns, and folders that are no stores, before any task runs. No row is staged, and so no file.

    Raises:
        InvalidArgument: Messages have no such columns.
        NotAStore, StorageError: As `Stager`.
    """
    table = schema.empty_table().drop_columns(rules.own_columns)
    for path in rules.paths:
        stage(path, table, due_before=rules.due_before, ignore_others=rules.ignore_others)


def staged(rules: StagingRules, batches: Iterable[pyarrow.RecordBatch], task: int | None = None) -> StagedRows:
    """Stages the rows of one task, which has this number where the engine says so.

    Raises:
        InvalidArgument, TooLarge: A row is no message; `argument` is its column and `index` its place in the task.
        StorageError: The operating system refused a call; `DiskFull` where there is no room.

    Where it raises nothing stays staged.
    """
    rows = bad_rows = 0
    runs = list[tuple[StagedRun, ...]]()
    with ExitStack() as stack:
        stagers = [stack.enter_context(_stager(rules, path)) for path in rules.paths]
        aside = None if rules.bad_rows is None else stack.enter_context(Aside(Path(rules.bad_rows), task))
        for batch in batches:
            bad = sorted(_added(rules, stagers, batch), key=lambda one: one.place)
            if bad:
                bad = [replace(one, row=rows + one.place) for one in bad]
                if aside is None:
                    raise bad[0].error(task)
                aside.add(batch, bad)
            rows += batch.num_rows
            bad_rows += len(bad)
        try:
            for stager in stagers:
                runs.append(stager.finish())
            return StagedRows(tuple(runs), rows, bad_rows, None if aside is None else aside.finish())
        except BaseException:
            with suppress(StorageError):  # it goes after a day; what is raised is more
                discard_staged(rules, [StagedRows(tuple(runs), rows, bad_rows, None)])
            raise


def _stager(rules: StagingRules, path: str) -> Stager:
    # It collects in any case: which row is the first that is wrong is known when all stores have theirs.
    return Stager(path, due_before=rules.due_before, ignore_others=rules.ignore_others, on_bad_row="collect")


def _added(rules: StagingRules, stagers: Sequence[Stager], batch: pyarrow.RecordBatch) -> Iterator[BadRow]:
    """Hands the rows of a batch to their stores; those that are no messages, by their places in the batch."""
    if not rules.own_columns:
        yield from stagers[0].add(batch)
        return
    compute = pyarrow.compute
    rows = batch.drop_columns(rules.own_columns)
    is_left = pyarrow.array([True] * batch.num_rows)
    if rules.broken_column is not None:
        is_left = compute.is_null(batch.column(rules.broken_column))
        for place in compute.indices_nonzero(compute.invert(is_left)).to_pylist():
            yield _misfit(place, rules.broken_column, "a line that can be read", "another")
    stores = pyarrow.array([0] * batch.num_rows) if rules.store_column is None else batch.column(rules.store_column)
    for number, stager in enumerate(stagers):
        is_its = compute.fill_null(compute.equal(stores, number), fill_value=False)
        places = compute.indices_nonzero(compute.and_(is_left, is_its))
        is_left = compute.and_(is_left, compute.invert(is_its))
        if len(places):
            for bad in stager.add(rows.take(places)):
                yield replace(bad, place=places[bad.place].as_py())
    for place in compute.indices_nonzero(is_left).to_pylist():
        found = stores[place].as_py()
        expected = f"a store from 0 to {len(stagers) - 1}"
        yield _misfit(place, rules.store_column or "", expected, "null" if found is None else str(found))


def _misfit(place: int, column: str, expected: str, found: str) -> BadRow:
    return BadRow(place, place, column, f"{column}: expected {expected}, found {found}", expected, found, None)


class Aside:
    """Writes rows that are no messages, with what is wrong with each, into a file that nobody reads yet."""

    def __init__(self, folder: Path, task: int | None) -> None:
        self._folder, self._task = folder, task
        self._name = f".load-{uuid.uuid4().hex}.parquet"  # readers pass over what begins with a dot
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        self._kept = False

    def add(self, batch: pyarrow.RecordBatch, bad: Sequence[BadRow]) -> None:
        """Takes the bad rows of a batch."""
        rows = batch.take(pyarrow.array([one.place for one in bad], pyarrow.int64()))
        rows = rows.append_column("bad_task", pyarrow.array([self._task] * len(bad), pyarrow.int32()))
        rows = rows.append_column("bad_row", pyarrow.array([one.row for one in bad], pyarrow.int64()))
        rows = rows.append_column("bad_column", pyarrow.array([one.column for one in bad], pyarrow.string()))
        rows = rows.append_column("reason", pyarrow.array([one.words for one in bad], pyarrow.string()))
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = pyarrow.parquet.ParquetWriter(self._folder / self._name, rows.schema)
        self._writer.write_batch(rows)

    def finish(self) -> str | None:
        """The name of the file, which is whole now; None where there was no such row."""
        if self._writer is None:
            return None
        self._writer.close()
        self._kept = True
        return self._name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._writer is not None and not self._kept:
            self._writer.close()
            (self._folder / self._name).unlink(missing_ok=True)


def put_in_place(rules: StagingRules, job: str, parts: Sequence[StagedRows]) -> None:
    """Names the files of rows that are no messages for the job and the places of its tasks: the same job again, whose
    rows are the same, writes over them. What tasks left that nobody waited for goes after a day.
    """
    if rules.bad_rows is None:
        return
    folder, of_job = Path(rules.bad_rows), f"load-{quote(job, safe='')}"  # Spark reads no file with a colon in its name
    named = dict[str, str]()
    for place, part in enumerate(parts):
        if part.aside is not None:
            named[f"{of_job}-{place:05}.parquet"] = part.aside
    for name, aside in named.items():
        (folder / aside).rename(folder / name)
    for older in folder.glob("load-*.parquet"):
        if older.name.rpartition("-")[0] == of_job and older.name not in named:
            older.unlink(missing_ok=True)
    for left in folder.glob(".load-*.parquet"):
        if time.time() - left.stat().st_mtime > ASIDE_S_MAX:
            left.unlink(missing_ok=True)


def discard_staged(rules: StagingRules, parts: Iterable[StagedRows]) -> None:
    """Removes what tasks staged and no load was asked for.

    Raises:
        StorageError: A file could not be removed; it goes after a day.
    """
    for part in parts:
        for path, runs in zip(rules.paths, part.runs, strict=False):
            discard(path, runs)
        if part.aside is not None and rules.bad_rows is not None:
            (Path(rules.bad_rows) / part.aside).unlink(missing_ok=True)
