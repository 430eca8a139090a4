"""Staging for a bulk load: a table of messages becomes runs beside a store, sorted, checked and synced.

::

    from delaymq.loading import stage

    runs = stage("./data", table)  # of pyarrow, Polars, DuckDB, pandas, …: whatever has Arrow's C data interface

What is staged is no part of the store yet and is never delivered: one load adopts all of it or none, and what nobody
adopts is removed after a day. The store may be open meanwhile, by whichever process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, cast

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.recovery import DELAY_MAX, folder_of
from delaymq.durations import due_ms
from delaymq.errors import Closed, DelaymqError, InvalidArgument, StorageError, StoreError, TooLarge

__all__ = ["RUN_BYTES_MAX", "RUN_ROWS_MAX", "BadRow", "OnBadRow", "StagedRun", "Stager", "discard", "stage"]

RUN_ROWS_MAX: Final = 1 << 20
"""Messages of a staged run at most."""

RUN_BYTES_MAX: Final = 256 << 20
"""Bytes of its messages at most: so much memory a stager takes, about."""

OnBadRow = Literal["raise", "collect"]
"""What is done with a row that is no message."""

FOLDER = "loads"
NAME = re.compile(r"[0-9]{13}-[0-9a-f]{32}\.run")


@dataclass(frozen=True, slots=True)
class StagedRun:
    """A file of staged messages, as a load names it. It can be pickled, and is made of what JSON has.

    Attributes:
        name: The name of its file in the store's folder `loads`.
        bytes: How long that is.
        digest: A check over all of its content.
        rows: How many messages it has.
    """

    name: str
    bytes: int
    digest: int
    rows: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no message.

    Attributes:
        row: Its place among all rows that the stager was given, from 0.
        place: Its place in what it was given last.
        column: The column that is wrong.
        words: What is wrong, in a sentence.
        expected: What belongs there.
        found: What is there.
        limit: The limit that it is over, or None where it is none.
    """

    row: int
    place: int
    column: str
    words: str
    expected: str
    found: str
    limit: int | None

    def error(self, task: int | None = None) -> InvalidArgument:
        """The error that names the row, of a task where several read rows, and the column."""
        details = {"argument": self.column, "expected": self.expected, "found": self.found, "index": self.row}
        words = f"row {self.row}{'' if task is None else f' of task {task}'}: {self.words}"
        return InvalidArgument(words, **details) if self.limit is None else TooLarge(words, limit=self.limit, **details)


class Stager:
    """Takes record batches and writes their rows as staged runs.

    The columns are those of the table `message`: `subject`, `due` and `body`, and `message_id`, `tags` and
    `attributes` where they are there. `due` is a timestamp of any unit with a zone, or text as ISO 8601 writes it;
    what is shorter than a millisecond rounds up. Tags are a list of texts and attributes a map, or JSON as the tables
    have it.

    Rows are sorted by due time within a run, and a run ends where it is as large as it may be. No thread that runs
    Python waits meanwhile.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        due_before: datetime | None = None,
        ignore_others: bool = False,
        on_bad_row: OnBadRow = "raise",
        run_rows_max: int = RUN_ROWS_MAX,
        run_bytes_max: int = RUN_BYTES_MAX,
    ) -> None:
        """Makes the folder `loads` of the store where it is not there.

        Args:
            path: The store's folder; the store may be open.
            due_before: No message is due later than this; ten years from now by default. A store that takes less
                refuses the load.
            ignore_others: Columns that a message does not have are let be; else they are refused.
            on_bad_row: `"raise"` ends with the first row that is no message, and nothing is staged; `"collect"` goes on
                without it, and says so.
            run_rows_max: Messages of a run at most, 1 or more.
            run_bytes_max: Bytes of the messages of a run at most, about, 1 or more.

        Raises:
            WrongType, InvalidArgument: An argument is refused.
            NotAStore: The folder holds something else.
            StorageError: The operating system refused a call.
        """
        if on_bad_row not in ("raise", "collect"):
            raise refused("on_bad_row", '"raise" or "collect"', on_bad_row)
        self.path = folder_of(path)
        self._collects = on_bad_row == "collect"
        self._rows = 0
        last = due_ms(datetime.now(UTC) + DELAY_MAX if due_before is None else due_before, "due_before")
        sizes = (
            _size("run_rows_max", run_rows_max, RUN_ROWS_MAX),
            _size("run_bytes_max", run_bytes_max, RUN_BYTES_MAX),
        )
        try:
            self._core: _core.Stager | None = _core.Stager(self.path, last, sizes, ignore_others, self._collects)
        except StoreError as error:
            error.store = self.path
            raise

    def add(self, data: object) -> tuple[BadRow, ...]:
        """Takes all rows of a record batch, or of a table or reader of some.

        Args:
            data: An object with `__arrow_c_array__` or `__arrow_c_stream__`.

        Returns:
            The rows that are no messages, where these are collected; all others were taken.

        Raises:
            WrongType, InvalidArgument: It has no such interface, or columns that messages do not have.
            InvalidArgument, TooLarge: A row is no message; `argument` is its column and `index` its row.
            StorageError: The operating system refused a call; `DiskFull` where there is no room.
            Closed: The stager has finished, was discarded, or has raised an error before.

        Where it raises nothing stays staged.
        """
        core = self._open()
        try:
            rows, told = core.add(data)
        except BaseException:
            self.discard()
            raise
        found = tuple(_bad_row(self._rows, bad) for bad in told)
        if found and not self._collects:
            self.discard()
            raise found[0].error()
        self._rows += rows
        return found

    def finish(self) -> tuple[StagedRun, ...]:
        """Writes what is held, and says what all of it is: whole and durable, for one load.

        Raises:
            StorageError: The operating system refused a call; it may be tried again.
            Closed: The stager has finished or was discarded.
        """
        runs = self._open().finish()
        self._core = None
        return tuple(StagedRun(*run) for run in runs)

    def discard(self) -> None:
        """Removes what was written. What `finish` gave away stays. A second call does nothing.

        Raises:
            StorageError: A file could not be removed; it goes after a day.
        """
        core, self._core = self._core, None
        if core is not None:
            core.discard()

    @property
    def rows(self) -> int:
        """How many rows it was given, with those that are no messages."""
        return self._rows

    def _open(self) -> _core.Stager:
        if self._core is None:
            raise Closed("the stager has finished or was discarded")
        return self._core

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Discards what was not finished."""
        self.discard()


def stage(
    path: str | os.PathLike[str],
    data: object,
    *,
    due_before: datetime | None = None,
    ignore_others: bool = False,
) -> tuple[StagedRun, ...]:
    """Stages a table, a record batch or a reader of some, whole: one row that is no message ends it.

    Args:
        path: The store's folder; the store may be open.
        data: As of `Stager.add`.
        due_before: As of `Stager`.
        ignore_others: As of `Stager`.

    Raises:
        WrongType, InvalidArgument, TooLarge, NotAStore, StorageError: As of `Stager` and its `add`.
    """
    with Stager(path, due_before=due_before, ignore_others=ignore_others) as stager:
        stager.add(data)
        return stager.finish()


def discard(path: str | os.PathLike[str], runs: Iterable[StagedRun]) -> None:
    """Removes runs that were staged and that no load will adopt. One that is gone already is fine.

    Never call it with runs that a load was asked to adopt, unless that was refused, and not because one of them had
    been loaded before: the store would miss them.

    Raises:
        WrongType, InvalidArgument: A run is none.
        StorageError: A file could not be removed; it goes after a day.
    """
    folder = Path(folder_of(path)) / FOLDER
    for name in [checked_run(run, "runs", index).name for index, run in enumerate(runs)]:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"remove of {folder / name} failed: {error.strerror}", errno=error.errno or 0) from error


def checked_run(found: object, argument: str, index: int) -> StagedRun:
    """A staged run, whose name is one, and leads nowhere else.

    Raises:
        WrongType, InvalidArgument: It is none.
    """
    try:
        return _checked(found, argument)
    except DelaymqError as error:
        error.index = index
        raise


def _checked(found: object, argument: str) -> StagedRun:
    if not isinstance(found, StagedRun):
        raise wrong_type(argument, "a StagedRun", found)
    if not isinstance(found.name, str):
        raise wrong_type(argument, "a StagedRun with a name that is a str", found.name)
    if NAME.fullmatch(found.name) is None:
        raise refused(argument, "the name of a staged run", found.name)
    for value, bits in ((found.bytes, 64), (found.digest, 32), (found.rows, 64)):
        if isinstance(value, bool) or not isinstance(cast("object", value), int):
            raise wrong_type(argument, "a StagedRun of whole numbers", value)
        if not 0 <= value < 1 << bits:
            raise refused(argument, f"a StagedRun of whole numbers below 2^{bits}", value)
    return found


def _bad_row(before: int, told: _core.BadRowTold) -> BadRow:
    place, words, column, expected, found, limit = told
    return BadRow(before + place, place, column, words, expected, found, limit)


def _size(argument: str, found: int, most: int) -> int:
    if isinstance(found, bool) or not isinstance(cast("object", found), int):
        raise wrong_type(argument, "an int", found)
    if not 1 <= found <= most:
        raise refused(argument, f"1 to {most}", found)
    return found
