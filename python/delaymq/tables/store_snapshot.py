"""A store as of one moment, and its tables: `delaymq.snapshot`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.recovery import folder_of
from delaymq.durations import MOMENT_MS_MAX, Duration, delay_ms, moment, moment_or_none
from delaymq.errors import Closed, StoreError
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

VERSION: Final = 1
"""Of the columns of all tables: it rises when one is added, and none is ever taken away."""

TABLES: Final = ("message", "pending", "ready", "action", "deliveries", "segments")
"""The names of the tables."""

UNFINISHED: Final = ("pending", "ready", "in_flight", "retrying")
"""Outcomes in `deliveries` of what somebody is still owed. Every other one but `unknown` is final."""

SPLIT_BYTES: Final = 64 << 20
"""About so many bytes of a store's files are in one range."""


class Snapshot:
    """What a store is as of one fact. Close it, or use it in a `with`: until then none of its files goes.

    Attributes:
        path: The store's folder.
        stream_id: The 16 bytes that all files of the store have.
        first_sequence: The first sequence of the log that is kept.
        end_sequence: The sequence behind the last fact that it has.
        retired: Facts in between that are kept no more: first sequence and the one behind the last of each such
            stretch, in order.
        trusted: The store's own clock at that fact, UTC.
        name: What `delaymq.snapshot` takes it again by, in any process: as of the same fact, while the files are kept.
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
        """Made by `snapshot`."""
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
        """Until when its files are kept, UTC, or None where the folder may not be written to: then they may go."""
        return self._pinned_until

    def dispatch_held(self) -> bool:
        """Whether dispatch was held when the last fact was written, as `Status.held` says of a store that is open: what
        is due waits until the wall clock is believed again.

        Raises:
            StorageError: The operating system refused a call.
            Closed: The snapshot is closed.
        """
        return self._open().dispatch_held()

    def hold(self, duration: Duration) -> datetime | None:
        """Keeps the files for so long from now on; says until when, as `pinned_until` does.

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
        """The ranges that have all rows that are asked for, each row in one of them, in the order of the table.

        Files of which no row is asked for are in none. What a range does not need is left out when it is read, so
        that what comes out of all of them is exactly what was asked for.

        Args:
            table: Which table.
            subjects: Only these; one that the store has not has no rows.
            first_sequence: Only from this sequence on; a row without a sequence is left out, as by each bound.
            end_sequence: Only below this sequence.
            published_from: Only what was published at this time or later, by the store's clock; of `ready`, what
                became ready then, and of `action`, facts of that time.
            published_before: Only what was published before this time.
            due_from: Only what is due at this time or later.
            due_before: Only what is due before this time.
            split_bytes: About so many bytes of files are in a range; a range has at least one batch of the log, or
                some hundred messages that are pending. Of `deliveries` a range has a sequence for each 128 of them.

        Raises:
            WrongType, InvalidArgument: An argument is refused; every choice of rows is for `segments`.
            Corrupt, MissingFile: What says where it lies that is pending or ready is damaged or gone.
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
        if isinstance(split_bytes, bool) or not isinstance(split_bytes, int):
            raise wrong_type("split_bytes", "an int", split_bytes)
        if not 0 < split_bytes <= SEQUENCE_MAX:
            raise refused("split_bytes", "1 or more", split_bytes)
        wanted = (checked_texts("subjects", subjects), bounds, split_bytes)
        planned = self._open().plan(checked_table(table), wanted)
        return tuple(
            Range(table, size, rows_max, first, end, tuple(files), token)
            for token, size, rows_max, first, end, files in planned
        )

    def read(self, range: Range, *, columns: Iterable[str] | None = None, on_damage: OnDamage = "raise") -> Rows:  # noqa: A002 - what it is
        """The rows of a range.

        Args:
            range: Of a `plan` of this store.
            columns: Only these, in this order, or None for all; none at all gives rows without columns, to be
                counted. Payloads are checked where a column is read out of them.
            on_damage: `"raise"`, or `"report"`: what is damaged is listed in `Rows.damages`, left out, and the reading
                goes on behind it.

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
        """All rows of a table that are asked for, in its order; the arguments are those of `plan` and `read`.

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
        """Reads all that a range is made of, whatever of it was asked for, and compares every check; raises nothing
        for what is damaged.

        Raises:
            WrongType, InvalidArgument: It is no range of this store.
            StorageError: The operating system refused a call.
            Closed: The snapshot is closed.
        """
        records, size, damages = self._open().verify(checked_range(range).token)
        return Verified(records, size, tuple(Damage(**fields) for fields in damages))

    def leave(self) -> None:
        """Closes it and keeps the files until `pinned_until`, for processes that read its ranges meanwhile."""
        if self._core is not None:
            self._core.leave()
            self._core = None

    def close(self) -> None:
        """Lets the files go. A second call does nothing."""
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

        begin(ranges)  # what is refused is refused here, and not by who reads it
        return Rows(ranges, begin)

    def _open(self) -> _core.TableStore:
        if self._core is None:
            raise Closed("the snapshot is closed")
        return self._core

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Snapshot({self.path!r}, end_sequence={self.end_sequence})"


def snapshot(path: str | os.PathLike[str], *, pinned_for: Duration = 3_600, name: str | None = None) -> Snapshot:
    """What the store in a folder is now, up to the last fact that is durable, also while a server writes to it; or what
    it was when a snapshot was taken whose files are still kept.

    Takes no lock and changes no file, but for a pin, so that none of its files goes before it is closed, where the
    folder may be written to.

    Args:
        path: The store's folder.
        pinned_for: So long its files are kept where this process dies; `Snapshot.hold` prolongs it.
        name: Of a snapshot of this store, to take the same one again; None takes one of now.

    Raises:
        WrongType, InvalidArgument: An argument is refused, or there is no such snapshot of this store.
        NotAStore: The folder holds something else.
        NewerFormat: A later release wrote it.
        Corrupt, MissingFile: What an open would need is damaged or gone, or what the named snapshot was made of.
        StorageError: The operating system refused a call.
    """
    folder = folder_of(path)
    try:
        core = _core.table_store(folder, delay_ms(pinned_for, "pinned_for"), checked_name(name))
    except StoreError as error:
        error.store = folder
        error.add_note(f"the store is {folder}")
        raise
    return Snapshot(folder, core)


def read_range(
    path: str | os.PathLike[str],
    range: Range,  # noqa: A002 - what it is
    *,
    columns: Iterable[str] | None = None,
    on_damage: OnDamage = "raise",
) -> Rows:
    """The rows of a range in another process than that which planned it; its snapshot keeps the files meanwhile.

    Args:
        path: The folder of the store that the range is of.
        range: Of a `Snapshot.plan`.
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
    """Name and type of each column of a table, in order, as Arrow's users write them.

    Raises:
        WrongType, InvalidArgument: There is no such table.
    """
    return tuple(_core.table_columns(checked_table(table)))
