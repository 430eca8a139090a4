"""Columns of `publish_many`: due times and keys of many messages, each as one argument."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, cast

from delaymq._arguments.argument_errors import refused, unexpected, wrong_type
from delaymq.durations import due_ms
from delaymq.errors import WrongType

EXPECTED = "datetimes, or whole milliseconds since 1970 as an int64 array of NumPy or Arrow"
WHOLE = "int64"
WHOLE_BYTES = 8
WHOLE_MAX = 2**63 - 1
# Milliseconds in a unit of NumPy's datetimes, and units in a millisecond.
NUMPY_UNITS = {
    "datetime64[s]": (1_000, 1),
    "datetime64[ms]": (1, 1),
    "datetime64[us]": (1, 1_000),
    "datetime64[ns]": (1, 1_000_000),
}


class MillisecondArray(Protocol):
    """Whole milliseconds since 1970 as an int64 array of NumPy or Arrow, or datetimes in such an array.

    Datetimes of NumPy have no time zone: they are in UTC. Those of Arrow must have one.
    """

    @property
    def nbytes(self) -> int:
        """The bytes of the items."""

    def __len__(self) -> int:
        """The number of messages."""


Moments: TypeAlias = datetime | Sequence[datetime] | MillisecondArray
"""One due time for all messages, or one for each: aware datetimes, or an array of milliseconds since 1970."""


def moments_of(at: Moments | None) -> int | Sequence[datetime] | memoryview | None:
    """Due times as the core takes them: milliseconds for all messages, datetimes, or a view of milliseconds.

    An array of whole milliseconds is not copied. Datetimes in other units are, rounded up.

    Raises:
        WrongType: It is an int, or an array of anything else.
        InvalidArgument: The one datetime is refused; a datetime of an array is missing, without a time zone, or beyond
            int64 milliseconds.
    """
    if at is None:
        return None
    if isinstance(at, datetime):
        return due_ms(at)
    anything: object = at
    if isinstance(anything, int):
        raise wrong_type("at", EXPECTED, at)
    library = type(at).__module__.partition(".")[0]
    if library == "numpy":
        return _of_numpy(at)
    if library == "pyarrow":
        return _of_arrow(at)
    return cast("Sequence[datetime]", at)


def _of_numpy(array: Any) -> memoryview:  # noqa: ANN401 - NumPy may not be installed
    """A view of an array's milliseconds, or of a rounded copy."""
    kind = str(getattr(array, "dtype", ""))
    if getattr(array, "ndim", 0) != 1 or hasattr(array, "mask") or kind not in {WHOLE, *NUMPY_UNITS}:
        raise _no_milliseconds(array, kind)
    if kind == WHOLE:
        return memoryview(array)
    factor, divisor = NUMPY_UNITS[kind]
    whole = array.view(WHOLE)
    if (factor, divisor) == (1, 1):
        return memoryview(whole)
    most = WHOLE_MAX // factor
    bad = (whole < -most) | (whole > most)  # a missing datetime is the least int64
    if bad.any():
        index = int(bad.argmax())
        error = refused("at", "a time after 1970, in int64 milliseconds", str(array[index]))
        error.index = index
        raise error
    return memoryview(-(-(whole * factor) // divisor))


def _of_arrow(array: Any) -> memoryview:  # noqa: ANN401 - Arrow may not be installed
    """A view of an array's milliseconds, or of a copy: of chunks that are joined, or of rounded datetimes."""
    kind = str(getattr(array, "type", ""))
    if kind != WHOLE and not kind.startswith("timestamp["):
        raise _no_milliseconds(array, kind)
    if hasattr(array, "chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if array.null_count:
        raise unexpected("at", "no nulls", f"{array.null_count}")
    if kind != WHOLE and array.type.tz is None:
        raise unexpected("at", "timestamps with a time zone", kind, "; say which, such as UTC")
    if kind != WHOLE and array.type.unit != "ms":
        return _of_numpy(array.to_numpy(zero_copy_only=False))
    values = array.buffers()[1]
    begin, end = WHOLE_BYTES * array.offset, WHOLE_BYTES * (array.offset + len(array))
    return memoryview(b"" if values is None else values).cast("B")[begin:end].cast("q")


def _no_milliseconds(array: object, kind: str) -> WrongType:
    """The error for an array of another type."""
    found = f"{type(array).__name__} of {kind}" if kind else type(array).__name__
    return WrongType(f"at: expected {EXPECTED}, found {found}", argument="at", expected=EXPECTED, found=found)
