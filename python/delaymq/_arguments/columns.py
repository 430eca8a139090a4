"""Columns of `publish_many`: due times and keys of many messages, each as one argument."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.durations import Duration, due_ms
from delaymq.keys import IfExists

EXPECTED = "datetimes, or whole milliseconds since 1970 as an int64 array of NumPy or Arrow"
WHOLE = "int64"
# Milliseconds in a unit of NumPy's datetimes, and units in a millisecond.
NUMPY_UNITS = {
    "datetime64[s]": (1_000, 1),
    "datetime64[ms]": (1, 1),
    "datetime64[us]": (1, 1_000),
    "datetime64[ns]": (1, 1_000_000),
}


class MillisecondArray(Protocol):
    """Whole milliseconds since 1970: an int64 array of NumPy or Arrow, or their datetimes."""

    def __len__(self) -> int:
        """The number of messages."""


Moments: TypeAlias = datetime | Sequence[datetime] | MillisecondArray
"""One due time for all messages, or one for each: aware datetimes, or an array of milliseconds since 1970."""


class ColumnOptions(NamedTuple):
    """The arguments of `publish_many` beside subjects, bodies and delays."""

    at: Moments | None = None
    keys: Sequence[str | None] | None = None
    if_exists: IfExists | None = None
    jitter: Duration | None = None


def moments_of(at: Moments | None) -> int | Sequence[datetime] | memoryview | None:
    """Due times as the core takes them: milliseconds for all messages, datetimes, or a view of milliseconds.

    An array of whole milliseconds is not copied. Datetimes of NumPy in other units are rounded up.

    Raises:
        WrongType: It is an array of anything else.
        InvalidArgument: The one datetime is refused, or an array of Arrow has nulls.
    """
    if at is None:
        return None
    if isinstance(at, datetime):
        return due_ms(at)
    if hasattr(at, "null_count"):
        return _of_arrow(at)
    if hasattr(at, "dtype") and hasattr(at, "view"):
        return _of_numpy(at)
    if isinstance(at, memoryview):
        return at
    return cast("Sequence[datetime]", at)


def _of_numpy(array: Any) -> memoryview:  # noqa: ANN401 - NumPy may not be installed
    """A view of an array's milliseconds, or of a rounded copy."""
    kind = str(array.dtype)
    if kind == WHOLE:
        return memoryview(array)
    if kind not in NUMPY_UNITS:
        raise wrong_type("at", EXPECTED, array)
    factor, divisor = NUMPY_UNITS[kind]
    whole = array.view(WHOLE)
    if (factor, divisor) == (1, 1):
        return memoryview(whole)
    return memoryview(-(-(whole * factor) // divisor))


def _of_arrow(array: Any) -> memoryview:  # noqa: ANN401 - Arrow may not be installed
    """A view of an array's milliseconds. Chunks are joined, which copies them if there are more than one."""
    if hasattr(array, "chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if not str(array.type).startswith((WHOLE, "timestamp[ms")):
        raise wrong_type("at", EXPECTED, array)
    if array.null_count:
        raise refused("at", "no nulls", array.null_count)
    values = array.buffers()[1]
    view = memoryview(values if values is not None else b"").cast("B").cast("q")
    return view[array.offset : array.offset + len(array)]
