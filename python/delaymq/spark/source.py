"""The PySpark data source `delaymq`: the tables of a store, read in batch and as a stream, and loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from delaymq.spark.partition import PartOfTable, batches_in
from delaymq.spark.plan import STORE, TableOptions, planned
from delaymq.spark.pushdown import narrowed
from delaymq.spark.schemas import names_of, schema_of
from delaymq.spark.stream import StreamOptions, TableStream
from delaymq.spark.worker import warm
from delaymq.spark.write import stream_writer_of, writer_of


class DelaymqDataSource(DataSource):
    """`spark.read.format("delaymq").option("log", …).load(path)`.

    The result of `load` is as of one moment of a store; load again to see later messages. Rows are excluded by options,
    not by filters, since Spark passes a filter that a source accepts to every scan of the same load. With the option
    `pushdown`, use one action for each load. `load([one, other])` reads several stores, with a column `store` that has
    the path of the row's store.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "delaymq"

    def schema(self) -> str:
        """The columns that the options request."""
        warm()
        [tables, *_] = TableOptions.parsed_of_each(StreamOptions.taken(self.options)[1])
        return schema_of(tables.log, tables.columns, tells_store=tables.store is not None)

    def reader(self, schema: StructType | pyarrow.Schema) -> DataSourceReader:
        """The batch reader. `schema` may have fewer columns, in the order of the table; Sail passes Arrow's."""
        tables = TableOptions.parsed_of_each(self.options)
        known = schema if isinstance(schema, StructType) else from_arrow_schema(schema, prefer_timestamp_ntz=False)
        names = names_of(tables[0].log, known, has_store=True)
        columns = tuple(name for name in names if name != STORE)
        chosen = [replace(one, columns=columns, store=one.path if STORE in names else None) for one in tables]
        reader = PushingReader if chosen[0].pushes_filters else TableReader
        return reader(chosen, None if isinstance(schema, StructType) else schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of `spark.readStream`."""
        stream, others = StreamOptions.taken(self.options)
        tables = TableOptions.parsed(others)
        return TableStream(replace(tables, columns=names_of(tables.log, schema)), stream)

    def writer(self, schema: StructType | pyarrow.Schema, overwrite: bool) -> DataSourceWriter:
        """The writer of `df.write`, which stages in the tasks and loads at the end."""
        return writer_of(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of `df.writeStream`."""
        return stream_writer_of(self.options, schema, overwrite)


class TableReader(DataSourceReader):
    """Reads one table of a store, or of several.

    An engine that expects certain Arrow types gets these, such as Sail, whose times have no zone.
    """

    def __init__(self, options: list[TableOptions], expected: pyarrow.Schema | None = None) -> None:
        self._options = options
        self._expected = expected

    def partitions(self) -> list[InputPartition]:
        """One partition for each part, as of now; several stores are each as of another moment."""
        warm()
        return [PartOfTable(part) for options in self._options for part in planned(options)]

    def read(self, partition: InputPartition | None) -> Iterator[pyarrow.RecordBatch]:
        """The batches of one part."""
        found = batches_in(partition)
        return found if self._expected is None else (batch.cast(self._expected) for batch in found)


class PushingReader(TableReader):
    """As `TableReader`, with the option `pushdown`: rows that a filter excludes are not planned.

    Spark must be configured to pass filters, and applies each of them itself as well.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrows the read by the filters, and returns all of them."""
        self._options = [narrowed(options, filters) for options in self._options]
        return filters


def register(spark: SparkSession) -> None:
    """Registers the format `delaymq` in this session, of classic Spark or of Connect."""
    source: Any = spark.dataSource
    source.register(DelaymqDataSource)
