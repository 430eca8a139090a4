"""Columns are only ever added: what a version had, every later one has, in the same order and of the same types."""

from __future__ import annotations

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
"""Of each version that a release had; a column that is added has its own entry here."""


def test_each_version_has_its_columns() -> None:
    assert max(COLUMNS_OF) == tables.VERSION
    assert COLUMNS_OF[tables.VERSION].keys() == set(tables.TABLES)


@pytest.mark.parametrize("version", COLUMNS_OF)
def test_columns_of_a_version_stay(version: int) -> None:
    assert COLUMNS_OF[version].keys() <= set(tables.TABLES)
    for table, words in COLUMNS_OF[version].items():
        expected = words.split(", ")
        found = [f"{name} {kind.replace('[us, tz=UTC]', '')}" for name, kind in tables.columns_of(table)]
        assert found[: len(expected)] == expected
        assert version < tables.VERSION or found == expected, "a new column is a new version"
