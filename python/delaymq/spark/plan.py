"""Options of a table read, and the parts of files that it needs. It needs no pyspark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeAlias

import delaymq
from delaymq._arguments.argument_errors import refused
from delaymq.tables import SPLIT_BYTES, TABLES, Range, Snapshot, columns_of

Named: TypeAlias = tuple[str, Callable[[str, str], Any]]
"""The field of an option, and the function that parses its text, given its name and the text."""

STORE = "store"
"""The column with the path of the row's store, after the columns of the table, if several stores are read."""

CHECKED_BY = {"message": "body_bytes", "pending": "body_bytes", "deliveries": "message_id"}
"""For each table with payloads, a column that is read from the payload."""

PINNED_FOR = timedelta(hours=6)
"""How long a plan keeps its files by its pin alone; a longer job may find files missing."""


@dataclass(frozen=True, slots=True)
class Part:
    """The work of one task.

    Attributes:
        path: The store.
        range: A part of its table.
        columns: The requested columns, in the order of the table.
        on_damage: `raise` ends the task at damaged data, `report` skips it.
        checked_by: A column that is read and dropped, so that every payload is checked; None for none.
        store: The value of the column `store`, after the others; None for no such column.
    """

    path: str
    range: Range
    columns: tuple[str, ...]
    on_damage: Literal["raise", "report"]
    checked_by: str | None = None
    store: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The rows and columns to read from a table. Parts without such rows are not read; rows are filtered exactly.

    Attributes:
        path: The store's folder, as each executor sees it.
        log: The name of the table, one of `delaymq.tables.TABLES`.
        columns: The requested columns; None for all.
        subjects: The subjects; None for all.
        first_sequence: The first sequence.
        end_sequence: The sequence after the last.
        published_from: The earliest time of publishing.
        published_before: The time before which messages were published.
        due_from: The earliest due time.
        due_before: The time before which messages are due.
        split_bytes: Approximate bytes that one task reads.
        verification: `headers` checks a payload only if one of its columns is read; `full` checks every payload.
        on_damage: `raise` or `report`.
        pinned_for: How long the files of the plan are kept.
        snapshot: The name of the snapshot to read; None takes a new one.
        pushes_filters: Skips rows that filters of Spark exclude, which is correct for one scan of a `load`.
        store: The value of a column `store`, after the columns of the table; None for no such column.
    """

    path: str
    log: str = "message"
    columns: tuple[str, ...] | None = None
    subjects: tuple[str, ...] | None = None
    first_sequence: int | None = None
    end_sequence: int | None = None
    published_from: datetime | None = None
    published_before: datetime | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None
    split_bytes: int = SPLIT_BYTES
    verification: Literal["headers", "full"] = "headers"
    on_damage: Literal["raise", "report"] = "raise"
    pinned_for: timedelta = PINNED_FOR
    snapshot: str | None = None
    pushes_filters: bool = False
    store: str | None = None

    def __post_init__(self) -> None:
        """Checks the table and its columns."""
        if self.log not in TABLES:
            raise refused("log", f"one of {', '.join(TABLES)}", self.log)
        if self.on_damage not in ("raise", "report"):
            raise refused("on_damage", "raise or report", self.on_damage)
        if self.verification not in ("headers", "full"):
            raise refused("verification", "headers or full", self.verification)
        if self.verification == "full" and self.log == "segments":
            raise refused("verification", "headers: of segments no record is read", self.verification)
        known = {name for name, _ in columns_of(self.log)}
        for name in self.columns or ():
            if name not in known:
                raise refused("columns", f"columns of {self.log}", name)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns to read, in the order of the table."""
        names = tuple(name for name, _ in columns_of(self.log))
        return names if self.columns is None else tuple(name for name in names if name in self.columns)

    @property
    def checked_by(self) -> str | None:
        """The additional column to read, so that every payload is checked, or None."""
        found = CHECKED_BY.get(self.log) if self.verification == "full" else None
        return None if found in self.wanted else found

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> Self:
        """Parses the options of a Spark reader, whose values are text.

        Raises:
            InvalidArgument: An option is unknown, or its text is invalid.
        """
        return cls(**_asked(options, NAMES))

    @classmethod
    def parsed_of_each(cls, options: Mapping[str, str]) -> list[Self]:
        """Parses the options of a Spark reader of one store or several (Spark's option `paths`): the same for each.

        Rows have the column `store` if `columns` contains it, or if there are several stores and no `columns`.

        Raises:
            InvalidArgument: As `parsed`; a path is repeated, or a snapshot of one store is requested for several.
        """
        found = _asked(options, NAMES | SEVERAL)
        several, columns = found.pop("paths", None), found.get("columns")
        if several is not None and "path" in found:
            raise refused("path", "None where several are named", found["path"])
        paths = [found["path"]] if several is None else several
        if len(paths) > 1 and "snapshot" in found:
            raise refused("snapshot", "a load of the one store that it is of", found["snapshot"])
        tells_store = several is not None if columns is None else STORE in columns
        if columns is not None:
            found["columns"] = tuple(name for name in columns if name != STORE)
        return [cls(**found | {"path": path, "store": path if tells_store else None}) for path in paths]


def _asked(options: Mapping[str, str], names: Mapping[str, Named]) -> dict[str, Any]:
    found, others = taken(options, names)
    for name in others:
        raise refused("option", f"one of {', '.join(names)}", name)
    if not {"path", "paths"} & found.keys():
        raise refused("path", "the folder of a store: load(path), or option path", "none")
    return found


def taken(options: Mapping[str, str], names: Mapping[str, Named]) -> tuple[dict[str, Any], dict[str, str]]:
    """Parses the options with one of these names, ignoring case, and returns them and the other options.

    Raises:
        InvalidArgument: A text is invalid.
    """
    found: dict[str, Any] = {}
    others: dict[str, str] = {}
    by_name = {name.lower(): (name, *named) for name, named in names.items()}
    for name, text in options.items():
        if name.lower() in by_name:
            written, field, read = by_name[name.lower()]
            found[field] = read(written, text)
        else:
            others[name] = text
    return found, others


def refuse_part(options: TableOptions, log: str) -> None:
    """Refuses options that exclude a part of the store, for jobs that need all of it.

    Raises:
        InvalidArgument: They do.
    """
    whole = TableOptions(path=options.path, log=log, pinned_for=options.pinned_for, snapshot=options.snapshot)
    if replace(options, split_bytes=whole.split_bytes) != whole:
        raise refused("options", "a store and nothing that leaves out some of it", options)


def planned(options: TableOptions, snapshot: Snapshot | None = None) -> list[Part]:
    """The parts of a snapshot, or of a new one. A new one is pinned for a while, since the tasks run later.

    Raises:
        InvalidArgument: Bounds are reversed, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`.
    """
    if snapshot is not None:
        return parts_of(snapshot, options)
    with delaymq.snapshot(options.path, pinned_for=options.pinned_for, name=options.snapshot) as taken_now:
        parts = parts_of(taken_now, options)
        taken_now.leave()
    return parts


def parts_of(snapshot: Snapshot, options: TableOptions) -> list[Part]:
    """The parts of a snapshot with the requested rows.

    Raises:
        InvalidArgument: Bounds are reversed, or another snapshot is requested.
        StoreError, StorageError: As `Snapshot.plan`.
    """
    if options.snapshot not in (None, snapshot.name):
        raise refused("snapshot", f"that which is read, {snapshot.name}", options.snapshot)
    ranges = snapshot.plan(
        options.log,
        subjects=options.subjects,
        first_sequence=options.first_sequence,
        end_sequence=options.end_sequence,
        published_from=options.published_from,
        published_before=options.published_before,
        due_from=options.due_from,
        due_before=options.due_before,
        split_bytes=options.split_bytes,
    )
    wanted, checked_by = options.wanted, options.checked_by
    return [Part(options.path, found, wanted, options.on_damage, checked_by, options.store) for found in ranges]


def retired_from(snapshot: Snapshot, first: int) -> tuple[tuple[int, int], ...]:
    """Ranges of facts from `first` on that are not kept any more, below the log or in holes of it.

    Returns:
        The first sequence of each range and the one after its last, in order.
    """
    stretches = ((1, snapshot.first_sequence), *snapshot.retired)
    return tuple((max(begin, first), end) for begin, end in stretches if max(begin, first) < end)


def explain(options: TableOptions) -> str:
    """How many parts, files and bytes a read needs, and how many there are, as lines of text.

    Raises:
        StoreError, StorageError: As `delaymq.snapshot`.
    """
    whole = TableOptions(path=options.path, log=options.log, split_bytes=options.split_bytes)
    with delaymq.snapshot(options.path, name=options.snapshot) as snapshot:  # closed: no data is read later
        kept, all_parts = parts_of(snapshot, options), parts_of(snapshot, whole)
    parts = f"{len(kept)} of {len(all_parts)} parts, {len(_files(kept))} of {len(_files(all_parts))} files"
    lines = [f"{options.log} of {options.path}: {parts}, {_bytes(kept)} of {_bytes(all_parts)} bytes"]
    for number, part in enumerate(kept, 1):
        files = ", ".join(path for path, _, _ in part.range.files) or "the schedule"
        lines.append(f"  part {number}: {part.range.bytes} bytes of {files}")
    return "\n".join(lines)


def _files(parts: list[Part]) -> set[str]:
    return {path for part in parts for path, _, _ in part.range.files}


def _bytes(parts: list[Part]) -> int:
    return sum(part.range.bytes for part in parts)


def text_option(_name: str, text: str) -> str:
    """Takes any text."""
    return text


def _paths(name: str, text: str) -> list[str]:
    """The folders of several stores, which Spark writes as one JSON list."""
    expected = "a JSON list of folders, each once"
    try:
        found = json.loads(text)
    except ValueError:
        raise refused(name, expected, text) from None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise refused(name, expected, text)
    if len({os.path.normpath(one) for one in found}) < len(found):
        raise refused(name, expected, text)
    return found


def _names(_name: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refused(name, "a whole number", text) from None


def time_option(name: str, text: str) -> datetime:
    """Parses a time with a zone.

    Raises:
        InvalidArgument: It is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise refused(name, "a time as ISO 8601 writes it", text) from None
    if found.tzinfo is None:
        raise refused(name, "a time with its zone, as 2030-01-01T00:00:00Z", text)
    return found


def truth_option(name: str, text: str) -> bool:
    """Parses `true` or `false`.

    Raises:
        InvalidArgument: It is neither.
    """
    if text.lower() not in ("true", "false"):
        raise refused(name, "true or false", text)
    return text.lower() == "true"


def _on_damage(name: str, text: str) -> str:
    if text not in ("fail", "report"):
        raise refused(name, "fail or report", text)
    return {"fail": "raise"}.get(text, text)


def _hours(name: str, text: str) -> timedelta:
    try:
        return timedelta(hours=float(text))
    except (ValueError, OverflowError):
        raise refused(name, "a number of hours", text) from None


NAMES: dict[str, Named] = {
    "path": ("path", text_option),
    "log": ("log", text_option),
    "columns": ("columns", _names),
    "subject": ("subjects", _names),
    "sequenceFrom": ("first_sequence", _whole),
    "sequenceTo": ("end_sequence", _whole),
    "publishedFrom": ("published_from", time_option),
    "publishedTo": ("published_before", time_option),
    "dueFrom": ("due_from", time_option),
    "dueTo": ("due_before", time_option),
    "splitBytes": ("split_bytes", _whole),
    "verification": ("verification", text_option),
    "onCorrupt": ("on_damage", _on_damage),
    "pinHours": ("pinned_for", _hours),
    "snapshot": ("snapshot", text_option),
    "pushdown": ("pushes_filters", truth_option),
}
"""The options of a Spark reader, with their fields and parsers."""

SEVERAL: dict[str, Named] = {"paths": ("paths", _paths)}
"""Spark's option for the folders of several stores."""
