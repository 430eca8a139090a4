"""What filters of Spark leave out, for who asks for that by the option `pushdown`.

A filter narrows what is read and is handed back, so that Spark applies it too: what is made of it here may be too wide,
and never too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from delaymq.spark.plan import TableOptions
from delaymq.tables.arguments import SEQUENCE_MAX

__all__ = ["narrowed"]

FROM = (EqualTo, GreaterThan, GreaterThanOrEqual)
BEFORE = (EqualTo, LessThan, LessThanOrEqual)

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class Bounds:
    """The two options that say from where on and before where a column is wanted."""

    first: str
    end: str
    read: Callable[[object], Any]
    """The value of a filter, within what the options take; None where it is of no use."""
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
"""The columns of each table by which some of it is read."""


def narrowed(options: TableOptions, filters: Iterable[Filter]) -> TableOptions:
    """The options, without rows that one of these filters would not let through."""
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
        end = max(first, end)  # nothing is between them, and bounds may not be upside down
    return replace(options, **{bounds.first: first, bounds.end: end})
