"""Bulk loads of files: Parquet, CSV or JSON Lines into one store or several, one load for each store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Literal

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from delaymq._arguments.argument_errors import refused
from delaymq.bulk_load import check_job
from delaymq.errors import StorageError
from delaymq.loading import StagedRun, discard
from delaymq.spark.destination import Destination
from delaymq.spark.staging import StagedRows, StagingRules, check_columns, discard_staged, put_in_place, staged
from delaymq.spark.write import number_of_task

Format = Literal["parquet", "csv", "json"]
"""The format of the files; `json` has an object in each line."""

CONTENT = ("subject", "due", "body", "message_id", "tags", "attributes", "expires", "on_expiry")
"""The columns of a message."""

BROKEN = "_corrupt_record"
"""The column with a line of CSV or JSON that could not be parsed."""

STORES = "job string, path string, messages bigint, first_sequence bigint, again boolean"
"""The columns of `stores_frame`."""

STORE = "delaymq_store"
RESULT_SCHEMA = "staged string"


@dataclass(frozen=True, slots=True)
class StoreLoad:
    """The result for one store.

    Attributes:
        path: The store's folder.
        messages: The number of messages that it got, now or before.
        first_sequence: The sequence of the first; None if it got none.
        again: True if the job had stored them before.
    """

    path: str
    messages: int
    first_sequence: int | None
    again: bool


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """The result of a load.

    Attributes:
        job: Its name.
        rows: The number of rows.
        bad_rows: The number of invalid rows, which were put aside.
        stores: The result for each store.
    """

    job: str
    rows: int
    bad_rows: int
    stores: tuple[StoreLoad, ...]


def rows_of(spark: SparkSession, paths: Sequence[str], form: Format) -> DataFrame:
    """The rows of files, with the columns of the files.

    In CSV, whose first line has the names, every column is text. In JSON, every column except a list of tags and an
    object of attributes is text. A line that cannot be parsed is invalid, and is in the column `_corrupt_record`.
    """
    files = list(paths)
    if form == "parquet":
        return spark.read.parquet(*files)
    text = StringType()
    if form == "csv":
        plain = spark.read.csv(files, header=True)
        schema = StructType([StructField(name, text) for name in (*plain.columns, BROKEN)])
        found = spark.read.csv(
            files,
            schema,
            header=True,
            enforceSchema=False,
            columnNameOfCorruptRecord=BROKEN,
            multiLine=True,
            escape='"',
        )
    else:
        guessed = spark.read.json(files, primitivesAsString=True)
        schema = StructType().add(BROKEN, text)
        for field in guessed.schema:
            kind: DataType = text
            if field.name == "tags" and isinstance(field.dataType, ArrayType):
                kind = ArrayType(text)
            elif field.name == "attributes" and isinstance(field.dataType, StructType):
                kind = MapType(text, text)
            if field.name != BROKEN:
                schema = schema.add(field.name, kind)
        found = spark.read.json(files, schema, columnNameOfCorruptRecord=BROKEN)
    return found


def load(
    rows: DataFrame,
    into: Sequence[Destination],
    *,
    job: str,
    by: Sequence[str] | None = None,
    bad_rows: str | None = None,
    ignore_others: bool = False,
    due_before: datetime | None = None,
) -> BulkLoad:
    """Stores all rows as messages: each store gets all of its part or nothing, once for each job.

    If the load fails or is killed, repeat it with the same job and rows: a store that has its part keeps it. Staged
    runs of failed attempts are removed after a day.

    Args:
        rows: The rows, with the columns of `delaymq.loading.Stager`. The tasks that have them stage them.
        into: The stores; each row goes into one of them.
        job: Identifies the load, with the characters of a subject.
        by: The columns whose values select the store of a row; by default all columns of a message except
            tags and attributes. Rows with the same values go to the same store.
        bad_rows: The folder for invalid rows, as Parquet; None fails at the first one.
        ignore_others: Ignores columns that a message does not have.
        due_before: Rows that are due later are invalid; None is ten years from now.

    Raises:
        InvalidArgument: Columns are refused, or, in a task, a row is invalid.
        StoreError: As `delaymq.Store.load`.
    """
    check_job(job)
    kept = [name for name in rows.columns if name != BROKEN]
    others = [name for name in kept if name not in CONTENT]
    if others and not ignore_others:
        raise refused("columns", f"columns of a message: {', '.join(CONTENT)}", ", ".join(others))
    many = len(into) > 1
    rules = StagingRules(
        paths=tuple(one.path for one in into),
        store_column=STORE if many else None,
        broken_column=BROKEN if BROKEN in rows.columns else None,
        bad_rows=bad_rows,
        ignore_others=True,
        due_before=due_before,
    )
    routed = _routed(rows, len(into), by) if many else rows
    check_columns(rules, to_arrow_schema(routed.schema, timezone="UTC"))
    results = routed.mapInArrow(partial(_staged, rules), RESULT_SCHEMA).collect()
    parts = [_parsed(row["staged"]) for row in results]
    put_in_place(rules, job, parts)
    stores = tuple(_adopted(rules, parts, into, job))
    return BulkLoad(job, sum(part.rows for part in parts), sum(part.bad for part in parts), stores)


def stores_frame(spark: SparkSession, done: BulkLoad) -> DataFrame:
    """The result for each store, as a DataFrame."""
    rows = [(done.job, one.path, one.messages, one.first_sequence, one.again) for one in done.stores]
    return spark.createDataFrame(rows, STORES)


def _adopted(
    rules: StagingRules, parts: Sequence[StagedRows], into: Sequence[Destination], job: str
) -> Iterator[StoreLoad]:
    """Loads the part of each store."""
    for number, one in enumerate(into):
        runs = [run for part in parts for run in part.runs[number]]
        try:
            loaded = one.load_new(job, runs)
        except BaseException:
            for later in range(number + 1, len(into)):
                with suppress(StorageError):  # the rest is removed after a day; the original error matters more
                    discard(rules.paths[later], [run for part in parts for run in part.runs[later]])
            raise
        if loaded is None:
            yield StoreLoad(one.path, 0, None, again=False)
        else:
            yield StoreLoad(one.path, loaded.count, loaded.first_sequence, loaded.again)


def _routed(rows: DataFrame, stores: int, by: Sequence[str] | None) -> DataFrame:
    chosen = [name for name in ("subject", "due", "message_id", "body") if name in rows.columns] if by is None else by
    for name in chosen:
        if name not in rows.columns:
            raise refused("by", f"columns of the rows: {', '.join(rows.columns)}", name)
    names = ", ".join(f"`{name}`" for name in chosen)
    return rows.withColumn(STORE, expr(f"CAST(pmod(xxhash64({names}), {stores}) AS INT)"))


def _staged(rules: StagingRules, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The work of a task, and its one result row."""
    done = staged(rules, batches, number_of_task())
    try:
        yield pyarrow.RecordBatch.from_pydict({"staged": [json.dumps(asdict(done))]})
    except GeneratorExit:  # the result was not read
        discard_staged(rules, [done])
        raise


def _parsed(text: str) -> StagedRows:
    fields = json.loads(text)
    runs = tuple(tuple(StagedRun(**run) for run in of_store) for of_store in fields.pop("runs"))
    return StagedRows(runs=runs, **fields)
