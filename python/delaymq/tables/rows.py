"""Rows of a table, and what they are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from delaymq import _core

__all__ = ["ArrowBatch", "Damage", "OnDamage", "Range", "Rows", "Verified"]

Token: TypeAlias = bytes

OnDamage = Literal["raise", "report"]
"""What is done where something is damaged."""


class ArrowBatch(Protocol):
    """A record batch: give it to `pyarrow.record_batch`, or to whatever reads Arrow's C data interface."""

    def __len__(self) -> int:
        """How many rows it has."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The capsules of its schema and its array."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that could not be read.

    Attributes:
        path: The file, relative to the store.
        offset: Where in it, in bytes, or None for a file that is missing.
        expected: What belongs there.
        found: What is there, or None for a file that is missing.
        sequence: The message whose payload it is, where it is only that, or None.
    """

    path: str
    offset: int | None
    expected: str
    found: str | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Verified:
    """What the check of a range found.

    Attributes:
        records: Records that could be read, of every kind; of `pending`, messages whose payload could; of `segments`,
            files; of `ready` also the rows of runs.
        bytes: Bytes that they lie in; of `pending`, those of the range; of `segments` none.
        damages: What is damaged.
    """

    records: int
    bytes: int
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a table: which files it is read from, and what of them. It can be pickled.

    Attributes:
        table: Of which table.
        bytes: Bytes of the files that are read, or few more; ranges of `deliveries` read some files in common.
        rows_max: No more rows than this come of it; facts that are no messages count too.
        first_sequence: The first sequence in it.
        end_sequence: The sequence behind the last one.
        files: Each file, relative to the store, where in it to begin, and where to end, or None for the end of
            a finished segment.
        token: All of this, and the filter, for the reader.
    """

    table: str
    bytes: int
    rows_max: int
    first_sequence: int
    end_sequence: int
    files: tuple[tuple[str, int, int | None], ...]
    token: Token


class Rows:
    """Rows of a table, read when they are asked for.

    Each `iter(rows)` and each reader that is given it (`pyarrow.table(rows)`, `polars.DataFrame(rows)`,
    `duckdb.from_arrow(rows)`) reads the files again, in batches of about 10,000 rows or 8 MiB. Nothing is
    decoded twice, and no thread that runs Python waits for the disk.

    Where something is damaged, a loop over it raises `Corrupt`, `MissingFile` or `DamagedPayload`, naming file and
    offset. A reader of Arrow raises its own error with the same words; `check` then raises ours.
    """

    def __init__(self, ranges: Sequence[Range], begin: _Begin) -> None:
        self._ranges = tuple(ranges)
        self._begin = begin
        self._reader: _core.TableReader | None = None

    def __iter__(self) -> Iterator[ArrowBatch]:
        """Reads them, batch by batch.

        Raises:
            Corrupt, MissingFile, DamagedPayload: Something is damaged, and that is to be raised.
            StorageError: The operating system refused a call.
        """
        self._reader = reader = self._begin(self._ranges)
        while (batch := reader.next_batch()) is not None:
            yield batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Reads them as a stream of Arrow's C data interface; types are those of `columns_of`, whatever is wished."""
        self._reader = reader = self._begin(self._ranges)
        return reader.stream()

    def __arrow_c_schema__(self) -> object:
        """What its columns are, by Arrow's C data interface."""
        return self._begin(self._ranges).schema()

    @property
    def damages(self) -> tuple[Damage, ...]:
        """What was damaged in the last reading so far, where it is to be reported, in the order of the log."""
        return () if self._reader is None else tuple(Damage(**fields) for fields in self._reader.damages())

    def check(self) -> None:
        """Raises what ended the last reading, where something did.

        Raises:
            Corrupt, MissingFile, DamagedPayload: Something is damaged, and that is to be raised.
            StorageError: The operating system refused a call.
        """
        if self._reader is not None:
            self._reader.check()


class _Begin(Protocol):
    def __call__(self, ranges: tuple[Range, ...], /) -> _core.TableReader: ...
