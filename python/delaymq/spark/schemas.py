"""The columns of a table as types of Spark and Arrow."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from delaymq._arguments.argument_errors import refused
from delaymq.spark.plan import STORE
from delaymq.tables import columns_of

TYPES: dict[str, DataType] = {
    "bool": BooleanType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "string": StringType(),
    "binary": BinaryType(),
    "timestamp[us, tz=UTC]": TimestampType(),
}
"""Spark's type for each Arrow type of the tables."""

SQL = {"timestamp[us, tz=UTC]": "timestamp_ltz"}
"""Types with another name in SQL: plain `timestamp` depends on the session, and in Sail has no zone."""


ARROW = {"string": pyarrow.string(), "bigint": pyarrow.int64(), "timestamp": pyarrow.timestamp("us", tz="UTC")}
"""Arrow's type for each type in SQL of the rows that tasks return."""


def arrow_of(columns: str) -> pyarrow.Schema:
    """The Arrow schema of columns that are written as SQL."""
    return pyarrow.schema([(name, ARROW[kind]) for name, kind in map(str.split, columns.split(", "))])


def schema_of(log: str, columns: Iterable[str] | None = None, *, tells_store: bool = False) -> str:
    """The schema of a table, or of some of its columns, in the order of the table, as SQL; each column may be null.

    With `tells_store`, the column `store` follows. It is SQL, since engines other than Spark need things of a
    `StructType` that PySpark has changed.

    Raises:
        InvalidArgument: There is no such table.
    """
    wanted = None if columns is None else set(columns)
    found = [(name, kind) for name, kind in columns_of(log) if wanted is None or name in wanted]
    of_store = [(STORE, "string")] if tells_store else []
    return ", ".join(f"`{name}` {SQL.get(kind, TYPES[kind].simpleString())}" for name, kind in found + of_store)


def names_of(log: str, schema: StructType, *, has_store: bool = False) -> tuple[str, ...]:
    """The columns of a schema that the user requested, of a table with or without the column `store`.

    Raises:
        InvalidArgument: The table has no such column, or has it with another type or in another order.
    """
    names = tuple(schema.fieldNames())
    known = {name: TYPES[kind] for name, kind in columns_of(log)} | ({STORE: StringType()} if has_store else {})
    for field in schema.fields:
        if field.name not in known:
            raise refused("schema", f"columns of {log}", field.name)
        if field.dataType != known[field.name]:
            expected = f"{field.name} {known[field.name].simpleString()}"
            raise refused("schema", expected, f"{field.name} {field.dataType.simpleString()}")
    ordered = tuple(name for name in known if name in names)
    if ordered != names:
        raise refused("schema", f"the order of the table: {', '.join(ordered)}", ", ".join(names))
    return names
