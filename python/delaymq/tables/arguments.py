"""Checks of the arguments of snapshots and of table reads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, cast

from delaymq._arguments.argument_errors import checked_int, refused, wrong_type
from delaymq.durations import due_ms
from delaymq.tables.rows import Range

__all__ = [
    "SEQUENCE_MAX",
    "checked_name",
    "checked_range",
    "checked_sequence",
    "checked_table",
    "checked_texts",
    "checked_time",
    "reports",
]

SEQUENCE_MAX: Final = 2**63 - 1


def checked_table(table: object) -> str:
    """The name of a table. Whether the table exists is checked when it is read."""
    if not isinstance(table, str):
        raise wrong_type("table", "a str", table)
    return table


def checked_name(name: object) -> bytes | None:
    """The bytes of a snapshot's name, or None. Whether the snapshot exists is checked when it is taken again."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise wrong_type("name", "a str", name)
    try:
        return bytes.fromhex(name)
    except ValueError:
        raise refused("name", "the name of a snapshot of this store", name) from None


def checked_range(found: object) -> Range:
    """A range."""
    if not isinstance(found, Range):
        raise wrong_type("range", "a Range", found)
    return found


def checked_texts(argument: str, texts: Iterable[str] | None) -> list[str] | None:
    """A list of texts, or None."""
    if texts is None:
        return None
    if isinstance(texts, str | bytes):
        raise wrong_type(argument, 'several str (put a single one into a tuple: ("one",))', texts)
    try:
        found = list(texts)
    except TypeError:
        raise wrong_type(argument, "several str", texts) from None
    for text in found:
        if not isinstance(cast("object", text), str):
            raise wrong_type(argument, "several str", text)
    return found


def reports(on_damage: object) -> bool:
    """True if damage is to be listed rather than raised."""
    if on_damage not in ("raise", "report"):
        raise refused("on_damage", '"raise" or "report"', on_damage)
    return on_damage == "report"


def checked_sequence(argument: str, sequence: int | None) -> int | None:
    """A sequence, or None."""
    return None if sequence is None else checked_int(argument, sequence, 0, SEQUENCE_MAX, kind="an int or None")


def checked_time(argument: str, time: datetime | None) -> int | None:
    """A time in milliseconds since 1970, or None."""
    return None if time is None else due_ms(time, argument)
