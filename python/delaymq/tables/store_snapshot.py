"""Snapshots: a store as of one moment, and its tables. `delaymq.snapshot` takes one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from delaymq import _core
from delaymq._arguments.argument_errors import checked_int
from delaymq._store.lifecycle import Closing
from delaymq._store.recovery import errors_named, folder_of
from delaymq.durations import MOMENT_MS_MAX, Duration, delay_ms, moment, moment_or_none
from delaymq.errors import Closed
from delaymq.tables.arguments import (
    SEQUENCE_MAX,
    checked_name,
    checked_range,
    checked_sequence,
    checked_table,
    checked_texts,
    checked_time,
    reports,
)
from delaymq.tables.rows import Damage, OnDamage, Range, Rows, Verified

__all__ = [
    "SPLIT_BYTES",
    "TABLES",
    "UNFINISHED",
    "VERSION",
    "Snapshot",
    "columns_of",
    "read_range",
    "snapshot",
]

VERSION: Final[int] = _core.TABLES_VERSION
"""Version of the columns of all tables. It rises when a column is added; no column is ever removed."""

TABLES: Final = ("message", "pending", "ready", "action", "deliveries", "segments")
"""The names of the tables."""

UNFINISHED: Final = ("pending", "ready", "in_flight", "retrying")
"""Outcomes in the table `deliveries` that are not final. All others are final, except `unknown`."""

SPLIT_BYTES: Final = 64 << 20
"""Default size of a range, in bytes of files."""


class Snapshot(Closing):
    """The state of a store as of one fact. Close it, or use it in a `with`: until then no file of the store is removed.

    Attributes:
        path: The store's folder.
        stream_id: The 16 bytes that identify the store, in all of its files.
        first_sequence: The first sequence of the log that is kept.
        end_sequence: The sequence after the last fact of the snapshot.
        retired: Ranges of facts in between that are not kept any more, in order: the first sequence of each, and the
            sequence after its last.
        trusted: The store's trusted clock at the last fact, UTC.
        name: Identifies the snapshot: `delaymq.snapshot` takes it again by this name, in any process, while its files
            are kept.
        tables: The names of the tables that can be read.
    """

    path: str
    stream_id: bytes
    first_sequence: int
    end_sequence: int
    retired: tuple[tuple[int, int], ...]
    trusted: datetime
    name: str
    tables: tuple[str, ...]

    def __init__(self, path: str, core: _core.TableStore) -> None:
        """Use `delaymq.snapshot` instead."""
        self._core: _core.TableStore | None = core
        self.path = path
        self.stream_id, self.first_sequence, self.end_sequence, trusted_ms, pinned_ms = core.about()
        self.retired = tuple(core.retired())
        self.name = core.name().hex()
        self.trusted = moment(min(trusted_ms, MOMENT_MS_MAX))
        self._pinned_until = moment_or_none(pinned_ms)
        self.tables = TABLES

    @property
    def pinned_until(self) -> datetime | None:
        """Until when its files are kept, UTC; None if the folder is not writable and files may be removed."""
        return self._pinned_until

    def dispatch_held(self) -> bool:
        """True if dispatch was held when the last fact was written, as `Status.held` of an open store.

        Due messages then wait until the system's clock is trusted again.

        Raises:
            StorageError: The operating system refused a call.
            Closed: The snapshot is closed.
        """
        return self._open().dispatch_held()

    def hold(self, duration: Duration) -> datetime | None:
        """Keeps the files for a duration from now on, and returns the new `pinned_until`.

        Raises:
            WrongType, InvalidArgument: `duration` is refused.
            Closed: The snapshot is closed.
        """
        self._pinned_until = moment_or_none(self._open().hold(delay_ms(duration, "duration")))
        return self._pinned_until

    def plan(
        self,
        table: str,
        *,
        subjects: Iterable[str] | None = None,
        first_sequence: int | None = None,
        end_sequence: int | None = None,
        published_from: datetime | None = None,
        published_before: datetime | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> tuple[Range, ...]:
        """Splits the requested rows of a table into ranges, in the order of the table; each row is in one range.

        Files without a requested row are in no range. Reading a range skips rows that were not requested.

        Args:
            table: The name of the table.
            subjects: Only these subjects; an unknown subject has no rows.
            first_sequence: Only this sequence and later ones. Each bound excludes rows without a value for it.
            end_sequence: Only sequences below this.
            published_from: Only messages published at this time or later, by the store's clock; for `ready`, messages
                that became ready then, and for `action`, facts of that time.
            published_before: Only messages published before this time.
            due_from: Only messages due at this time or later.
            due_before: Only messages due before this time.
            split_bytes: Approximate bytes of files in a range. A range has at least one batch of the log, or some
                hundred pending messages; in `deliveries`, it has one sequence for each 128 bytes.

        Raises:
            WrongType, InvalidArgument: An argument is refused; `segments` accepts no filter of rows.
            Corrupt, MissingFile: The index of pending or ready messages is damaged or missing.
            StorageError: The operating system refused a call.
            Closed: The snapshot is closed.
        """
        bounds = (
            checked_sequence("first_sequence", first_sequence),
            checked_sequence("end_sequence", end_sequence),
            checked_time("published_from", published_from),
            checked_time("published_before", published_before),
            checked_time("due_from", due_from),
            checked_time("due_before", due_before),
        )
        checked_int("split_bytes", split_bytes, 1, SEQUENCE_MAX, expected="1 or more")
        wanted = (checked_texts("subjects", subjects), bounds, split_bytes)
        planned = self._open().plan(checked_table(table), wanted)
        return tuple(
            Range(table, size, rows_max, first, end, tuple(files), token)
            for token, size, rows_max, first, end, files in planned
        )

    def read(self, range: Range, *, columns: Iterable[str] | None = None, on_damage: OnDamage = "raise") -> Rows:  # noqa: A002 - what it is
        """The rows of a range.

        Args:
            range: A range of a `plan` of this store.
            columns: Only these columns, in this order, or None for all. An empty list gives rows without columns, to be
                counted. A payload is checked only if one of its columns is read.
            on_damage: `"raise"`, or `"report"`: damaged rows are skipped and listed in `Rows.damages`.

        Raises:
            WrongType, InvalidArgument: An argument is refused.
            Closed: The snapshot is closed.
        """
        return self._rows((checked_range(range),), columns, on_damage)

    def to_arrow_batches(
        self,
        table: str,
        *,
        columns: Iterable[str] | None = None,
        on_damage: OnDamage = "raise",
        subjects: Iterable[str] | None = None,
        first_sequence: int | None = None,
        end_sequence: int | None = None,
        published_from: datetime | None = None,
        published_before: datetime | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
    ) -> Rows:
        """All requested rows of a table, in its order; the arguments are those of `plan` and `read`.

        Raises:
            WrongType, InvalidArgument: An argument is refused.
            StorageError: The operating system refused a call.
            Closed: The snapshot is closed.
        """
        ranges = self.plan(
            table,
            subjects=subjects,
            first_sequence=first_sequence,
            end_sequence=end_sequence,
            published_from=published_from,
            published_before=published_before,
            due_from=due_from,
            due_before=due_before,
            split_bytes=SEQUENCE_MAX,
        )
        return self._rows(ranges, columns, on_damage, table)

    def verify(self, range: Range) -> Verified:  # noqa: A002 - what it is
        """Reads all data of a range, whether its rows were requested or not, and compares every checksum. Damage is
        returned, not raised.

        Raises:
            WrongType, InvalidArgument: It is not a range of this store.
            StorageError: The operating system refused a call.
            Closed: The snapshot is closed.
        """
        records, size, damages = self._open().verify(checked_range(range).token)
        return Verified(records, size, tuple(Damage(**fields) for fields in damages))

    def leave(self) -> None:
        """Closes the snapshot but keeps its files until `pinned_until`, for processes that read its ranges."""
        if self._core is not None:
            self._core.leave()
            self._core = None

    def close(self) -> None:
        """Releases the files. A second call does nothing."""
        if self._core is not None:
            self._core.release()
            self._core = None

    def _rows(
        self, ranges: tuple[Range, ...], columns: Iterable[str] | None, on_damage: OnDamage, table: str | None = None
    ) -> Rows:
        names, is_reported = checked_texts("columns", columns), reports(on_damage)
        self._open()

        def begin(chosen: tuple[Range, ...]) -> _core.TableReader:
            tokens = [one.token for one in chosen]
            return self._open().read(table, tokens, names, is_reported)

        begin(ranges)  # refuses invalid arguments here, not when the rows are read
        return Rows(ranges, begin)

    def _open(self) -> _core.TableStore:
        if self._core is None:
            raise Closed("the snapshot is closed")
        return self._core

    def __repr__(self) -> str:
        return f"Snapshot({self.path!r}, end_sequence={self.end_sequence})"


def snapshot(path: str | os.PathLike[str], *, pinned_for: Duration = 3_600, name: str | None = None) -> Snapshot:
    """Takes a snapshot of the store in a folder, up to the last durable fact, also while a server writes to it.

    It takes no lock and changes no file, except for a pin, if the folder is writable, which keeps the files until
    the snapshot is closed.

    Args:
        path: The store's folder.
        pinned_for: How long the files are kept if this process dies; `Snapshot.hold` prolongs it.
        name: The name of an earlier snapshot of this store, to take it again; None takes a new one.

    Raises:
        WrongType, InvalidArgument: An argument is refused, or there is no such snapshot of this store.
        NotAStore: The folder holds something else.
        NewerFormat: A later release wrote it.
        Corrupt, MissingFile: A file that an open would need, or that the named snapshot needs, is damaged or missing.
        StorageError: The operating system refused a call.
    """
    folder = folder_of(path)
    with errors_named(folder, with_note=True):
        core = _core.table_store(folder, delay_ms(pinned_for, "pinned_for"), checked_name(name))
    return Snapshot(folder, core)


def read_range(
    path: str | os.PathLike[str],
    range: Range,  # noqa: A002 - what it is
    *,
    columns: Iterable[str] | None = None,
    on_damage: OnDamage = "raise",
) -> Rows:
    """The rows of a range, in any process, while the snapshot that planned it keeps the files.

    Args:
        path: The folder of the store that the range belongs to.
        range: A range of a `Snapshot.plan`.
        columns: As in `Snapshot.read`.
        on_damage: As in `Snapshot.read`.

    Raises:
        WrongType, InvalidArgument: An argument is refused.
        StorageError: The operating system refused a call.
    """
    folder, names, is_reported = folder_of(path), checked_texts("columns", columns), reports(on_damage)

    def begin(chosen: tuple[Range, ...]) -> _core.TableReader:
        return _core.read_table_ranges(folder, [one.token for one in chosen], names, is_reported)

    begin((checked_range(range),))
    return Rows((range,), begin)


def columns_of(table: str) -> tuple[tuple[str, str], ...]:
    """Name and Arrow type of each column of a table, in order.

    Raises:
        WrongType, InvalidArgument: There is no such table.
    """
    return tuple(_core.table_columns(checked_table(table)))
