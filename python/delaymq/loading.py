"""Staging for bulk loads: a table of messages becomes sorted, checked and synced runs in the store's folder.

::

    from delaymq.loading import stage

    runs = stage("./data", table)  # of pyarrow, Polars, DuckDB, pandas: any object with Arrow's C data interface

Staged runs are not part of the store and are never delivered: one load adopts all of them or none, and runs that
no load adopts are removed after a day. The store may be open meanwhile, in any process.
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
from delaymq._arguments.argument_errors import checked_int, refused, wrong_type
from delaymq._store.recovery import DELAY_MAX, folder_of
from delaymq.durations import due_ms
from delaymq.errors import Closed, DelaymqError, InvalidArgument, StorageError, StoreError, TooLarge

__all__ = ["RUN_BYTES_MAX", "RUN_ROWS_MAX", "BadRow", "OnBadRow", "StagedRun", "Stager", "discard", "stage"]

RUN_ROWS_MAX: Final = 1 << 20
"""The maximum number of messages in a staged run."""

RUN_BYTES_MAX: Final = 256 << 20
"""The maximum size of a staged run, in bytes of messages; approximately the memory that a stager uses."""

OnBadRow = Literal["raise", "collect"]
"""How a row is handled that is not a valid message."""

FOLDER = "loads"
NAME = re.compile(r"[0-9]{13}-[0-9a-f]{32}\.run")


@dataclass(frozen=True, slots=True)
class StagedRun:
    """A file of staged messages, as a load refers to it. It can be pickled, and consists of values that JSON has.

    Attributes:
        name: The name of its file in the store's folder `loads`.
        bytes: The length of the file.
        digest: A checksum of its content.
        rows: The number of its messages.
    """

    name: str
    bytes: int
    digest: int
    rows: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is not a valid message.

    Attributes:
        row: Its place among all rows that the stager was given, from 0.
        place: Its place in the data of the last `add`, from 0.
        column: The column that is invalid.
        words: The error, in a sentence.
        expected: The expected value.
        found: The value that was found.
        limit: The limit that was exceeded, or None.
    """

    row: int
    place: int
    column: str
    words: str
    expected: str
    found: str
    limit: int | None

    def error(self, task: int | None = None) -> InvalidArgument:
        """The exception for the row, with the number of the task if several tasks read rows."""
        details = {"argument": self.column, "expected": self.expected, "found": self.found, "index": self.row}
        words = f"row {self.row}{'' if task is None else f' of task {task}'}: {self.words}"
        return InvalidArgument(words, **details) if self.limit is None else TooLarge(words, limit=self.limit, **details)


class Stager:
    """Writes the rows of record batches as staged runs.

    The columns are those of the table `message`: `subject`, `due` and `body`, and optionally `message_id`, `tags`,
    `attributes`, `expires` and `on_expiry`. `due` and `expires` are timestamps with a zone, of any unit, or text in ISO
    8601; a fraction of a millisecond is rounded up. Tags are a list of texts and attributes a map, or JSON as the
    tables have it. `on_expiry` is `drop` or `dead_letter`, as for `Store.publish`.

    Rows are sorted by due time within a run, and a run ends when it reaches its maximum size. No thread holds the
    interpreter meanwhile.
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
        """Creates the folder `loads` of the store if it does not exist.

        Args:
            path: The store's folder; the store may be open.
            due_before: Rows that are due later are invalid; ten years from now by default. A store with a shorter
                `delay_max` refuses the load.
            ignore_others: True ignores columns that a message does not have; otherwise they are refused.
            on_bad_row: `"raise"` raises at the first invalid row, and nothing is staged; `"collect"` skips invalid rows
                and returns them.
            run_rows_max: The maximum number of messages in a run, 1 or more.
            run_bytes_max: The approximate maximum of a run in bytes of messages, 1 or more.

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
            checked_int("run_rows_max", run_rows_max, 1, RUN_ROWS_MAX),
            checked_int("run_bytes_max", run_bytes_max, 1, RUN_BYTES_MAX),
        )
        try:
            self._core: _core.Stager | None = _core.Stager(self.path, last, sizes, ignore_others, self._collects)
        except StoreError as error:
            error.store = self.path
            raise

    def add(self, data: object) -> tuple[BadRow, ...]:
        """Takes all rows of a record batch, or of a table or reader of batches.

        Args:
            data: An object with `__arrow_c_array__` or `__arrow_c_stream__`.

        Returns:
            The invalid rows, if they are collected; all others were taken.

        Raises:
            WrongType, InvalidArgument: It has no such interface, or columns that messages do not have.
            InvalidArgument, TooLarge: A row is invalid; `argument` is its column and `index` its row.
            StorageError: The operating system refused a call; `DiskFull` if there is no room.
            Closed: The stager has finished, was discarded, or has raised an error before.

        After an error nothing stays staged.
        """
        core = self._open()
        try:
            rows, bad_rows = core.add(data)
        except BaseException:
            self.discard()
            raise
        found = tuple(_bad_row(self._rows, bad) for bad in bad_rows)
        if found and not self._collects:
            self.discard()
            raise found[0].error()
        self._rows += rows
        return found

    def finish(self) -> tuple[StagedRun, ...]:
        """Writes the remaining rows, and returns all runs, complete and durable, for one load.

        Raises:
            StorageError: The operating system refused a call; `finish` may be called again.
            Closed: The stager has finished or was discarded.
        """
        runs = self._open().finish()
        self._core = None
        return tuple(StagedRun(*run) for run in runs)

    def discard(self) -> None:
        """Removes the runs that were written, unless `finish` has returned them. A second call does nothing.

        Raises:
            StorageError: A file could not be removed; it is removed after a day.
        """
        core, self._core = self._core, None
        if core is not None:
            core.discard()

    @property
    def rows(self) -> int:
        """The number of rows so far, invalid ones included."""
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
        """Discards the runs unless they are finished."""
        self.discard()


def stage(
    path: str | os.PathLike[str],
    data: object,
    *,
    due_before: datetime | None = None,
    ignore_others: bool = False,
) -> tuple[StagedRun, ...]:
    """Stages a table, a record batch or a reader of batches, all of it: one invalid row ends it with an error.

    Args:
        path: The store's folder; the store may be open.
        data: As for `Stager.add`.
        due_before: As for `Stager`.
        ignore_others: As for `Stager`.

    Raises:
        WrongType, InvalidArgument, TooLarge, NotAStore, StorageError: As `Stager` and its `add`.
    """
    with Stager(path, due_before=due_before, ignore_others=ignore_others) as stager:
        stager.add(data)
        return stager.finish()


def discard(path: str | os.PathLike[str], runs: Iterable[StagedRun]) -> None:
    """Removes staged runs that no load will adopt. A run that is missing already is ignored.

    Never discard runs that a load was asked to adopt, unless that load was refused for a reason other than a run that
    had been loaded before: the store would miss them.

    Raises:
        WrongType, InvalidArgument: An item is not a staged run.
        StorageError: A file could not be removed; it is removed after a day.
    """
    folder = Path(folder_of(path)) / FOLDER
    for name in [checked_run(run, "runs", index).name for index, run in enumerate(runs)]:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"remove of {folder / name} failed: {error.strerror}", errno=error.errno or 0) from error


def checked_run(found: object, argument: str, index: int) -> StagedRun:
    """Checks a staged run: its name is the name of a run and not a path to another place.

    Raises:
        WrongType, InvalidArgument: It is not a staged run.
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


def _bad_row(before: int, bad_rows: _core.BadRowTold) -> BadRow:
    place, words, column, expected, found, limit = bad_rows
    return BadRow(before + place, place, column, words, expected, found, limit)
