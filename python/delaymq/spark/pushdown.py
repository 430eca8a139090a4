"""Pushdown of Spark's filters, for reads with the option `pushdown`.

A filter narrows the read and is returned to Spark, which applies it again: the narrowed read may contain more rows
than the filter admits, and never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from delaymq.spark.plan import TableOptions
from delaymq.tables.arguments import SEQUENCE_MAX

FROM = (EqualTo, GreaterThan, GreaterThanOrEqual)
BEFORE = (EqualTo, LessThan, LessThanOrEqual)

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class Bounds:
    """The two options that bound a column."""

    first: str
    end: str
    read: Callable[[object], Any]
    """Converts the value of a filter to a valid bound; None if it cannot be used."""
    behind: Callable[[Any], Any]


def _sequence(value: object) -> int | None:
    return min(max(value, 0), SEQUENCE_MAX - 1) if isinstance(value, int) else None


def _time(value: object) -> datetime | None:
    return min(max(value, EARLIEST), LATEST) if isinstance(value, datetime) and value.tzinfo is not None else None


def _times(first: str, end: str) -> Bounds:
    return Bounds(first, end, _time, lambda time: time + timedelta(milliseconds=1))


SEQUENCES = Bounds("first_sequence", "end_sequence", _sequence, lambda sequence: sequence + 1)
PUBLISHED = _times("published_from", "published_before")
DUE = _times("due_from", "due_before")
OF_MESSAGES = {"sequence": SEQUENCES, "published": PUBLISHED, "due": DUE}

COLUMNS: dict[str, dict[str, Bounds]] = {
    "message": OF_MESSAGES,
    "pending": OF_MESSAGES,
    "deliveries": OF_MESSAGES,
    "ready": {"sequence": SEQUENCES, "ready": PUBLISHED, "due": DUE},
    "action": {"sequence": SEQUENCES, "time": PUBLISHED, "due": DUE},
    "segments": {},
}
"""The columns of each table that have bounds."""


def narrowed(options: TableOptions, filters: Iterable[Filter]) -> TableOptions:
    """The options, narrowed by these filters."""
    columns = COLUMNS[options.log]
    for one in filters:
        match getattr(one, "attribute", ()):
            case ("subject",) if columns:
                options = _of_subjects(options, one)
            case (str(column),) if column in columns:
                options = _bounded(options, one, columns[column])
    return options


def _of_subjects(options: TableOptions, one: Filter) -> TableOptions:
    if not isinstance(one, EqualTo | In):
        return options
    values = one.value if isinstance(one, In) else (one.value,)
    wanted = {value for value in values if isinstance(value, str)}
    known = options.subjects
    return replace(options, subjects=tuple(sorted(wanted if known is None else wanted.intersection(known))))


def _bounded(options: TableOptions, one: Filter, bounds: Bounds) -> TableOptions:
    value = bounds.read(getattr(one, "value", None))
    if value is None:
        return options
    first, end = getattr(options, bounds.first), getattr(options, bounds.end)
    if isinstance(one, FROM):
        first = value if first is None else max(first, value)
    if isinstance(one, BEFORE):
        end = bounds.behind(value) if end is None else min(end, bounds.behind(value))
    if first is not None and end is not None:
        end = max(first, end)  # no row is between them, and reversed bounds are invalid
    return replace(options, **{bounds.first: first, bounds.end: end})
