"""Staging by the tasks of a load: each stages its rows in the folders of the stores.

A task may run again, or twice at the same time, or be killed: staged runs are not part of a store until a load
names them, and only the runs of the tasks that succeeded are named.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self
from urllib.parse import quote

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from delaymq.errors import StorageError
from delaymq.loading import BadRow, StagedRun, Stager, discard, stage

BAD_ROW_FILE_S_MAX = 86_400
"""How long files of failed tasks are kept, as long as staged runs that no load adopts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingRules:
    """The instructions for the tasks.

    Attributes:
        paths: The folders of the stores, under the paths that executors see.
        store_column: The column with the number of the row's store, from 0; not needed for one store.
        broken_column: The column with a line that could not be parsed; None if rows are not lines.
        bad_rows: The folder for invalid rows, as Parquet; None fails at the first one.
        ignore_others: Ignores columns that a message does not have.
        due_before: Rows that are due later are invalid; None is ten years from now.
    """

    paths: tuple[str, ...]
    store_column: str | None = None
    broken_column: str | None = None
    bad_rows: str | None = None
    ignore_others: bool = False
    due_before: datetime | None = None

    @property
    def own_columns(self) -> list[str]:
        """Columns that are not part of a message."""
        return [name for name in (self.store_column, self.broken_column) if name is not None]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The result of one task.

    Attributes:
        runs: For each store, the runs to adopt.
        rows: The number of rows of the task.
        bad: The number of invalid rows.
        aside: The name of the hidden file with the invalid rows, or None.
    """

    runs: tuple[tuple[StagedRun, ...], ...]
    rows: int
    bad: int
    aside: str | None


def check_columns(rules: StagingRules, schema: pyarrow.Schema) -> None:
    """Checks columns and folders before any task runs. No row is staged, and so no file.

    Raises:
        InvalidArgument: Messages have no such columns.
        NotAStore, StorageError: As `Stager`.
    """
    table = schema.empty_table().drop_columns(rules.own_columns)
    for path in rules.paths:
        stage(path, table, due_before=rules.due_before, ignore_others=rules.ignore_others)


def staged(rules: StagingRules, batches: Iterable[pyarrow.RecordBatch], task: int | None = None) -> StagedRows:
    """Stages the rows of one task, with its number, if the engine tells.

    Raises:
        InvalidArgument, TooLarge: A row is invalid; `argument` is its column and `index` its place in the task.
        StorageError: The operating system refused a call; `DiskFull` if there is no room.

    After an error nothing stays staged.
    """
    rows = bad_rows = 0
    runs = list[tuple[StagedRun, ...]]()
    with ExitStack() as stack:
        # Always collected: the first invalid row is known only once all stores have their rows.
        due_before, ignore_others = rules.due_before, rules.ignore_others
        begun = partial(Stager, due_before=due_before, ignore_others=ignore_others, on_bad_row="collect")
        stagers = [stack.enter_context(begun(path)) for path in rules.paths]
        aside = None if rules.bad_rows is None else stack.enter_context(BadRowFile(Path(rules.bad_rows), task))
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
            with suppress(StorageError):  # the rest is removed after a day; the original error matters more
                discard_staged(rules, [StagedRows(tuple(runs), rows, bad_rows, None)])
            raise


def _added(rules: StagingRules, stagers: Sequence[Stager], batch: pyarrow.RecordBatch) -> Iterator[BadRow]:
    """Passes the rows of a batch to their stores; yields the invalid ones, with their places in the batch."""
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


class BadRowFile:
    """Writes invalid rows, with the error of each, into a hidden file."""

    def __init__(self, folder: Path, task: int | None) -> None:
        self._folder, self._task = folder, task
        self._name = f".load-{uuid.uuid4().hex}.parquet"  # readers ignore names with a leading dot
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        self._kept = False

    def add(self, batch: pyarrow.RecordBatch, bad: Sequence[BadRow]) -> None:
        """Writes the invalid rows of a batch."""
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
        """The name of the complete file; None if there was no invalid row."""
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
    """Renames the files of invalid rows by job and place of the task, so that a repeated job replaces them.

    Files of failed tasks are removed after a day.
    """
    if rules.bad_rows is None:
        return
    folder, of_job = Path(rules.bad_rows), f"load-{quote(job, safe='')}"  # Spark cannot read file names with a colon
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
        if time.time() - left.stat().st_mtime > BAD_ROW_FILE_S_MAX:
            left.unlink(missing_ok=True)


def discard_staged(rules: StagingRules, parts: Iterable[StagedRows]) -> None:
    """Removes staged runs that no load was asked to adopt.

    Raises:
        StorageError: A file could not be removed; it is removed after a day.
    """
    for part in parts:
        for path, runs in zip(rules.paths, part.runs, strict=False):
            discard(path, runs)
        if part.aside is not None and rules.bad_rows is not None:
            (Path(rules.bad_rows) / part.aside).unlink(missing_ok=True)
