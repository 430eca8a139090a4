"""Type stubs of the part of `delaymq._core` that reads tables without the store's lock, and stages bulk loads.

It is a part of that module and no module of its own. Nothing here holds the interpreter while it reads. The results
are record batches or streams of them, never single rows.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

Capsule: TypeAlias = object
"""A PyCapsule, which has no name in Python 3.11."""

TableAsked: TypeAlias = tuple[Sequence[str] | None, tuple[int | None, ...], int]
"""Subjects, or None for all; first and end sequence, published from and before, due from and before, in milliseconds
since 1970, each or None; approximate bytes of files in a range.
"""

TableRange: TypeAlias = tuple[bytes, int, int, int, int, list[tuple[str, int, int | None]]]
"""Token, bytes, maximum of rows, first sequence, end sequence, and each file with two offsets.
"""

BadRowTold: TypeAlias = tuple[int, str, str, str, str, int | None]
"""The place of an invalid row, the error in words, the column, the expected and the found value, and the limit that was
exceeded, or None.
"""

@final
class TableStore:
    """A store as of one fact, with the pin that keeps its files."""

    def about(self) -> tuple[bytes, int, int, int, int | None]:
        """Stream, first and end sequence, trusted time, and when its pin expires, or None without a pin."""

    def name(self) -> bytes:
        """Identifies the snapshot, to take it again."""

    def retired(self) -> list[tuple[int, int]]:
        """First and end sequence of each range of facts that was retired within the log."""

    def dispatch_held(self) -> bool:
        """True if dispatch was held when the last fact was written."""

    def plan(self, table: str, wanted: TableAsked, /) -> list[TableRange]:
        """The ranges with the requested rows."""

    def read(
        self, table: str | None, tokens: Sequence[bytes], columns: Sequence[str] | None, reports: bool, /
    ) -> TableReader:
        """Begins to read ranges of one table; all columns, or some; reports damage or raises."""

    def verify(self, token: bytes, /) -> tuple[int, int, list[dict[str, Any]]]:
        """The number of records and bytes, and the damage, of all data of a range."""

    def hold(self, for_ms: int, /) -> int | None:
        """Keeps the files for a duration from now on; returns when the pin expires, or None if there can be none."""

    def leave(self) -> None:
        """Keeps the files until the pin expires by itself."""

    def release(self) -> None:
        """Releases the files."""

@final
class TableReader:
    """Reads ranges."""

    def next_batch(self) -> TableBatch | None:
        """The next record batch; None at the end."""

    def stream(self) -> Capsule:
        """The remaining batches as an `ArrowArrayStream`."""

    def schema(self) -> Capsule:
        """The columns as an `ArrowSchema`."""

    def damages(self) -> list[dict[str, Any]]:
        """The damage so far, as `delaymq.tables.Damage` has it."""

    def check(self) -> None:
        """Raises the error that ended the read, if any."""

@final
class TableBatch:
    """A record batch."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Capsule, Capsule]:
        """The capsules of its schema and its array; a requested schema is ignored."""

def table_store(path: str, for_ms: int, name: bytes | None, /) -> TableStore:
    """Takes a snapshot of the store in a folder, or takes the snapshot of that name again, pinned for a while."""

def read_table_ranges(
    path: str, tokens: Sequence[bytes], columns: Sequence[str] | None, reports: bool, /
) -> TableReader:
    """As `TableStore.read`, without a snapshot."""

TABLES_VERSION: int
"""The version of the columns of all tables."""

def table_columns(table: str, /) -> list[tuple[str, str]]:
    """Name and type of each column of a table."""

@final
class Stager:
    """Writes record batches as staged runs in the store's folder."""

    def __new__(
        cls, path: str, due_max_ms: int, sizes: tuple[int, int], ignores_others: bool, goes_on: bool, /
    ) -> Stager:
        """Rows due later than `due_max_ms` (since 1970) are invalid; `sizes` are rows and bytes of a run;
        `ignores_others` ignores unknown columns; `goes_on` skips invalid rows.
        """

    def add(self, data: object, /) -> tuple[int, list[BadRowTold]]:
        """The number of rows in an object of Arrow's C data interface, and the invalid ones."""

    def finish(self) -> list[tuple[str, int, int, int]]:
        """Name, bytes, digest and rows of each run."""

    def discard(self) -> None:
        """Removes the runs. A second call does nothing."""

RebuiltRunTold: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, digest and rows of a run that was written beside the store."""

def rebuild_plan(
    path: str, piece_sequences: int, /
) -> tuple[bytes, int | None, list[tuple[int, int, int, int]], list[tuple[int, int, str, str | None]]]:
    """The plan; the number of its checkpoint; index, first sequence, sequences and run number of each piece; first
    sequence, sequences, reason and damage of each window that is not rebuilt.
    """

def rebuild_piece(
    path: str, plan: bytes, index: int, stage: bool, /
) -> tuple[dict[str, int], list[tuple[int, str, str]], RebuiltRunTold | None]:
    """The counts of a piece; sequence, kind and words of some messages with something wrong; the
    run that was written.
    """

def refuse_open(path: str, /) -> None:
    """Raises `Locked` if a process has the store open."""

def adopt_rebuilt(path: str, plan: bytes, staged: list[tuple[int, RebuiltRunTold | None]], /) -> tuple[int, int]:
    """Replaces the existing runs by those of all pieces; returns the number of runs and of messages."""
