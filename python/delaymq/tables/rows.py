"""Rows of a table, and the ranges of files that they are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from delaymq import _core

__all__ = ["ArrowBatch", "Damage", "OnDamage", "Range", "Rows", "Verified"]

Token: TypeAlias = bytes

OnDamage = Literal["raise", "report"]
"""How damaged data is handled."""


class ArrowBatch(Protocol):
    """A record batch, for `pyarrow.record_batch` or any other reader of Arrow's C data interface."""

    def __len__(self) -> int:
        """The number of rows."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The capsules of its schema and its array."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in a file that could not be read.

    Attributes:
        path: The file, relative to the store.
        offset: Offset in the file, in bytes, or None for a missing file.
        expected: The expected value.
        found: The value that was found, or None for a missing file.
        sequence: The sequence of the message, if only its payload is damaged, or None.
    """

    path: str
    offset: int | None
    expected: str
    found: str | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of verifying a range.

    Attributes:
        records: Readable records of every kind; for `pending`, messages with a readable payload; for `segments`,
            files; for `ready`, also the rows of runs.
        bytes: Bytes of these records; for `pending`, those of the range; for `segments` 0.
        damages: The damage that was found.
    """

    records: int
    bytes: int
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a table: the files to read, and which of their rows. It can be pickled.

    Attributes:
        table: The name of the table.
        bytes: Approximate bytes of the files to read; ranges of `deliveries` share some files.
        rows_max: An upper bound of the number of rows; it counts facts that are not messages, too.
        first_sequence: The first sequence in it.
        end_sequence: The sequence after the last one.
        files: For each file, its path relative to the store, the offset where to begin, and the offset where to end,
            or None for the end of a finished segment.
        token: The range and its filter, encoded for the reader.
    """

    table: str
    bytes: int
    rows_max: int
    first_sequence: int
    end_sequence: int
    files: tuple[tuple[str, int, int | None], ...]
    token: Token


class Rows:
    """Rows of a table, read on demand.

    Each `iter(rows)` and each reader that gets it (`pyarrow.table(rows)`, `polars.DataFrame(rows)`,
    `duckdb.from_arrow(rows)`) reads the files again, in batches of about 10,000 rows or 8 MiB. No thread holds the
    interpreter while it waits for the disk.

    If data is damaged, iteration raises `Corrupt`, `MissingFile` or `DamagedPayload`, with file and offset. An Arrow
    reader raises its own error with the same text; `check` then raises ours.
    """

    def __init__(self, ranges: Sequence[Range], begin: _Begin) -> None:
        self._ranges = tuple(ranges)
        self._begin = begin
        self._reader: _core.TableReader | None = None

    def __iter__(self) -> Iterator[ArrowBatch]:
        """Reads the rows, batch by batch.

        Raises:
            Corrupt, MissingFile, DamagedPayload: Data is damaged, and `on_damage` is `"raise"`.
            StorageError: The operating system refused a call.
        """
        self._reader = reader = self._begin(self._ranges)
        while (batch := reader.next_batch()) is not None:
            yield batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Reads the rows as a stream of Arrow's C data interface.

        The types are those of `columns_of`; a requested schema is ignored.
        """
        self._reader = reader = self._begin(self._ranges)
        return reader.stream()

    def __arrow_c_schema__(self) -> object:
        """The schema, by Arrow's C data interface."""
        return self._begin(self._ranges).schema()

    @property
    def damages(self) -> tuple[Damage, ...]:
        """The damage found so far by the last read, in the order of the log, if `on_damage` is `"report"`."""
        return () if self._reader is None else tuple(Damage(**fields) for fields in self._reader.damages())

    def check(self) -> None:
        """Raises the error that ended the last read, if any.

        Raises:
            Corrupt, MissingFile, DamagedPayload: Data is damaged, and `on_damage` is `"raise"`.
            StorageError: The operating system refused a call.
        """
        if self._reader is not None:
            self._reader.check()


class _Begin(Protocol):
    def __call__(self, ranges: tuple[Range, ...], /) -> _core.TableReader: ...
