"""The part of `delaymq._core` that reads tables of a store without its lock, and stages what is to be loaded.

It is a part of that module's manual and no module of its own. Nothing here holds the interpreter while it reads, and
what is handed out is a record batch or a stream of them, never a row.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

Capsule: TypeAlias = object
"""A PyCapsule, which has no name in Python 3.11."""

TableAsked: TypeAlias = tuple[Sequence[str] | None, tuple[int | None, ...], int]
"""Subjects or None for all; first and end sequence, published from and before, due from and before, in milliseconds
since 1970, each or None; about so many bytes of files in a range."""

TableRange: TypeAlias = tuple[bytes, int, int, int, int, list[tuple[str, int, int | None]]]
"""Token, bytes, most rows, first sequence, end sequence, and each file with where to begin and to end in it."""

BadRowTold: TypeAlias = tuple[int, str, str, str, str, int | None]
"""The place of a row that is no message, what is wrong in words, the column, what belongs there, what is there, and
the limit that it is over, or None."""

@final
class TableStore:
    """A store as of one fact, and the pin that keeps its files."""

    def about(self) -> tuple[bytes, int, int, int, int | None]:
        """Stream, first and end sequence, trusted time, and when its pin ends, or None where there is none."""

    def name(self) -> bytes:
        """What the same snapshot is taken again by."""

    def retired(self) -> list[tuple[int, int]]:
        """First and end sequence of each stretch of facts that was retired from the midst of the log."""

    def dispatch_held(self) -> bool:
        """Whether dispatch was held when the last fact was written."""

    def plan(self, table: str, wanted: TableAsked, /) -> list[TableRange]:
        """The ranges that have what is wanted."""

    def read(
        self, table: str | None, tokens: Sequence[bytes], columns: Sequence[str] | None, reports: bool, /
    ) -> TableReader:
        """A reading of ranges of a table, or of the one that all are of; all columns, or some; whether damage is
        reported.
        """

    def verify(self, token: bytes, /) -> tuple[int, int, list[dict[str, Any]]]:
        """Records, bytes and damages of all that a range is made of."""

    def hold(self, for_ms: int, /) -> int | None:
        """Keeps the files for so long from now on; when the pin ends, or None where there can be none."""

    def leave(self) -> None:
        """Keeps the files until the pin ends by itself."""

    def release(self) -> None:
        """Lets the files go."""

@final
class TableReader:
    """A reading of ranges."""

    def next_batch(self) -> TableBatch | None:
        """The next record batch; None at the end."""

    def stream(self) -> Capsule:
        """All that is left of it, as an `ArrowArrayStream`."""

    def schema(self) -> Capsule:
        """What its columns are, as an `ArrowSchema`."""

    def damages(self) -> list[dict[str, Any]]:
        """What was damaged so far, as `delaymq.tables.Damage` has it."""

    def check(self) -> None:
        """Raises what ended the reading, where something did."""

@final
class TableBatch:
    """A record batch."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Capsule, Capsule]:
        """The capsules of its schema and its array; the types are what they are, whatever is wished."""

def table_store(path: str, for_ms: int, name: bytes | None, /) -> TableStore:
    """What is visible of the store in a folder, or was when the snapshot of that name was taken, pinned for so long."""

def read_table_ranges(
    path: str, tokens: Sequence[bytes], columns: Sequence[str] | None, reports: bool, /
) -> TableReader:
    """As `TableStore.read`, without one."""

def table_columns(table: str, /) -> list[tuple[str, str]]:
    """Name and type of each column of a table."""

@final
class Stager:
    """Takes record batches and writes staged runs beside the store in a folder."""

    def __new__(
        cls, path: str, due_max_ms: int, sizes: tuple[int, int], ignores_others: bool, goes_on: bool, /
    ) -> Stager:
        """No message is due later than so many milliseconds since 1970; rows and bytes of a run; whether columns that
        no message has are let be; whether rows are taken behind one that is none.
        """

    def add(self, data: object, /) -> tuple[int, list[BadRowTold]]:
        """How many rows there were in an object of Arrow's C data interface, and those that are no messages."""

    def finish(self) -> list[tuple[str, int, int, int]]:
        """Name, bytes, digest and rows of each run that was written."""

    def discard(self) -> None:
        """Removes what was written. A second call does nothing."""

RebuiltRunTold: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, check and rows of a run that was written beside the store."""

def rebuild_plan(
    path: str, piece_sequences: int, /
) -> tuple[bytes, int | None, list[tuple[int, int, int, int]], list[tuple[int, int, str, str | None]]]:
    """The plan; the number of its checkpoint; index, first sequence, sequences and run number of each piece; first
    sequence and sequences of what stays as it is, why, and what is damaged of it.
    """

def rebuild_piece(
    path: str, plan: bytes, index: int, stage: bool, /
) -> tuple[dict[str, int], list[tuple[int, str, str]], RebuiltRunTold | None]:
    """How many messages of a piece are `pending`, and of these `same`, `different`, `missing`, `unreadable`, `kept` and
    `vanishing`; sequence, kind and words of some with which something is wrong, the worst first; the run that was
    written.
    """

def refuse_open(path: str, /) -> None:
    """Raises `Locked` where somebody has the store open."""

def adopt_rebuilt(path: str, plan: bytes, staged: list[tuple[int, RebuiltRunTold | None]], /) -> tuple[int, int]:
    """Puts the runs of all pieces in the place of those that are there: how many, and their messages."""
