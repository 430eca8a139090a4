"""A bulk load of files: Parquet, CSV or JSON Lines into one store or several, each by one load."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from delaymq._arguments.argument_errors import refused
from delaymq.bulk_load import check_job
from delaymq.errors import StorageError
from delaymq.loading import StagedRun, discard
from delaymq.spark.staging import StagedRows, StagingRules, check_columns, discard_staged, put_in_place, staged
from delaymq.spark.write import number_of_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delaymq.spark.destination import Destination

__all__ = ["CONTENT", "BulkLoad", "Format", "StoreLoad", "load", "rows_of", "stores_frame"]

Format = Literal["parquet", "csv", "json"]
"""What files are: `json` has an object in each line."""

CONTENT = ("subject", "due", "body", "message_id", "tags", "attributes")
"""The columns of a message."""

BROKEN = "_corrupt_record"
"""The column that has a line of CSV or JSON that cannot be read."""

STORES = "job string, path string, messages bigint, first_sequence bigint, again boolean"
"""The columns of `stores_frame`."""

STORE = "delaymq_store"
TOLD = "staged string"


@dataclass(frozen=True, slots=True)
class StoreLoad:
    """What became of the part of one store.

    Attributes:
        path: The store's folder.
        messages: How many messages it got, now or before.
        first_sequence: The sequence of the first; None where it got none.
        again: True where the job had stored them before.
    """

    path: str
    messages: int
    first_sequence: int | None
    again: bool


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """What a load did.

    Attributes:
        job: Its name.
        rows: How many rows there were.
        bad_rows: How many of them are no messages, and were put aside.
        stores: What became of the part of each store.
    """

    job: str
    rows: int
    bad_rows: int
    stores: tuple[StoreLoad, ...]


def rows_of(spark: SparkSession, paths: Sequence[str], form: Format) -> DataFrame:
    """The rows of files, with the columns that they have.

    Of CSV, whose first line has the names, everything is text; of JSON what is no list of tags and no object of
    attributes is. A line that cannot be read is no message, and stands in the column `_corrupt_record`.
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
    """Stores all rows, as messages: each store takes its part whole or nothing of it, once for each job.

    Where it fails or is killed, the same job with the same rows goes on: a store that has its part keeps it. What was
    staged meanwhile goes after a day.

    Args:
        rows: The rows, with the columns of `delaymq.loading.Stager`; whichever tasks have them stage them.
        into: The stores, each row into one of them.
        job: What makes two loads the same one, made as a subject's name.
        by: The columns whose values say which of several stores a row is for; by default all of a message's but its
            tags and attributes. Rows with the same values go to the same store.
        bad_rows: The folder for rows that are no messages, as Parquet; None fails with the first one.
        ignore_others: Columns that a message does not have are let be.
        due_before: No message is due later than this; None is ten years from now.

    Raises:
        InvalidArgument: Columns are refused, or, in a task, a row is no message.
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
    told = routed.mapInArrow(partial(_staged, rules), TOLD).collect()
    parts = [_parsed(row["staged"]) for row in told]
    put_in_place(rules, job, parts)
    stores = tuple(_adopted(rules, parts, into, job))
    return BulkLoad(job, sum(part.rows for part in parts), sum(part.bad for part in parts), stores)


def stores_frame(spark: SparkSession, done: BulkLoad) -> DataFrame:
    """What became of the part of each store, as a DataFrame."""
    rows = [(done.job, one.path, one.messages, one.first_sequence, one.again) for one in done.stores]
    return spark.createDataFrame(rows, STORES)


def _adopted(
    rules: StagingRules, parts: Sequence[StagedRows], into: Sequence[Destination], job: str
) -> Iterator[StoreLoad]:
    """Has each store take its part."""
    for number, one in enumerate(into):
        runs = [run for part in parts for run in part.runs[number]]
        try:
            loaded = one.load_new(job, runs)
        except BaseException:
            for later in range(number + 1, len(into)):
                with suppress(StorageError):  # it goes after a day; what is raised is more
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
    """What a task does, and the one row that it tells."""
    done = staged(rules, batches, number_of_task())
    try:
        yield pyarrow.RecordBatch.from_pydict({"staged": [json.dumps(asdict(done))]})
    except GeneratorExit:  # nobody took it
        discard_staged(rules, [done])
        raise


def _parsed(text: str) -> StagedRows:
    fields = json.loads(text)
    runs = tuple(tuple(StagedRun(**run) for run in of_store) for of_store in fields.pop("runs"))
    return StagedRows(runs=runs, **fields)
