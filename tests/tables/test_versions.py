"""Columns are only ever added: what a version had, every later one has, in the same order and of the same types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from delaymq import tables

VERSION_1 = {
    "message": (
        "sequence int64, epoch int32, subject string, message_id string, key string, tags string, "
        "attributes string, body binary, body_bytes int64, published timestamp, due timestamp, "
        "segment string, offset int64, payload_check int64, expires timestamp, on_expiry string"
    ),
    "pending": (
        "sequence int64, epoch int32, subject string, message_id string, key string, tags string, "
        "attributes string, body binary, body_bytes int64, published timestamp, due timestamp, "
        "segment string, offset int64, payload_check int64, published_sequence int64, "
        "expires timestamp, on_expiry string"
    ),
    "ready": (
        "sequence int64, subject string, number int64, published_sequence int64, due timestamp, "
        "ready timestamp, ready_sequence int64, epoch int32, segment string, offset int64"
    ),
    "action": (
        "sequence int64, epoch int32, time timestamp, kind string, subject string, group string, "
        "group_number int64, consumer string, consumer_number int64, first_number int64, "
        "last_number int64, first_offset int64, last_offset int64, count int64, ranges string, "
        "target_sequence int64, target_due timestamp, target_subject string, published_sequence int64, "
        "due timestamp, delay_ms int64, key string, attempt int32, start string, name string, "
        "reason string, segment string, offset int64"
    ),
    "deliveries": (
        "sequence int64, subject string, group string, number int64, message_id string, "
        "published timestamp, due timestamp, ready timestamp, delivered timestamp, "
        "acknowledged timestamp, attempts int32, outcome string, lateness_ms int64, ended timestamp, "
        "entry_sequence int64, group_number int64"
    ),
    "segments": (
        "log string, path string, number int64, base_sequence int64, end_sequence int64, rows int64, "
        "bytes int64, min_time timestamp, max_time timestamp, sealed bool"
    ),
}
"""Times without their unit and zone, which all have."""

COLUMNS_OF = {1: VERSION_1}
"""Of each version that a release had. A column that is added is in the document, with the version that adds it."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "tables.md"
SECTION = re.compile(r"^## The table `(\w+)`$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (`[^|]*`) \| ([^|]*) \|(.*)\|$", re.MULTILINE)
SINCE = re.compile(r"since version (\d+)")


def found_in(table: str) -> list[tuple[str, str]]:
    return [(name, kind.replace("[us, tz=UTC]", "")) for name, kind in tables.columns_of(table)]


def documented() -> dict[str, dict[tuple[str, str], int]]:
    """By table, the name and type of each column of the document, and the version that added it."""
    columns: dict[str, dict[tuple[str, str], int]] = {}
    for table, section in SECTION.findall(PAGE.read_text("utf-8")):
        columns[table] = dict(columns["message"]) if table == "pending" else {}
        for names, types, meaning in ROW.findall(section):
            since = SINCE.search(meaning)
            several = names.replace("`", "").split(", ")
            kinds = types.replace("[us, tz=UTC]", "").split(", ")
            for name, kind in zip(several, kinds * len(several) if len(kinds) == 1 else kinds, strict=True):
                columns[table][name, kind] = int(since[1]) if since else 1
    return columns


def test_the_document_has_every_column_and_the_version_that_added_it() -> None:
    columns = documented()
    assert columns.keys() == set(tables.TABLES)
    for table, versions in columns.items():
        found = found_in(table)
        assert set(found) == versions.keys(), table
        added = [versions[column] for column in found]
        assert added == sorted(added), f"a new column of {table} is the last one"
    assert max(version for versions in columns.values() for version in versions.values()) == tables.VERSION


@pytest.mark.parametrize("version", COLUMNS_OF)
def test_columns_of_a_version_stay(version: int) -> None:
    assert COLUMNS_OF[version].keys() <= set(tables.TABLES)
    for table, words in COLUMNS_OF[version].items():
        expected = [tuple(column.split(" ")) for column in words.split(", ")]
        found = found_in(table)
        assert found[: len(expected)] == expected
        assert version < tables.VERSION or found == expected, "a new column is a new version"
