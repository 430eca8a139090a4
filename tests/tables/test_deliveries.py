"""The table `deliveries` against the second reader."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import tables
from tables import oracle
from tables.oracle_deliveries import Deliveries
from tables.worlds import Step, World


# Every word but those of damage: acknowledged and put away, given back and brought back, expired, removed.
QUEUES: list[Step] = [
    ("publish", 0, 59),
    ("publish", 1, 250),
    ("keyed", 3, 5),
    ("keyed", 3, 11),
    ("move", 1, 0),
    ("cancel", 2, 3),
    ("ack", 2, 0),
    ("advance", 11, 10),
    ("ack", 0, 1),
    ("bury", 0, 2),
    ("redrive", 0, 3),
    ("nack", 1, 2),
    ("checkpoint", 0, 0),
    ("advance", 20, 0),
    ("nack", 0, 0),
    ("remove_group", 1, 0),
    ("publish", 4, 12),
    ("advance", 1, 2),
    ("ack", 4, 0),
    ("remove_group", 4, 0),
    ("publish", 2, 30),
    ("ack", 2, 0),
    ("remove_group", 2, 0),
    ("publish", 2, 59),
    ("advance", 1, 2),
    ("expire", 2, 1),
    ("reopen", 0, 0),
    ("publish", 2, 30),
    ("ack", 5, 0),
    ("bury", 1, 0),
    ("checkpoint", 0, 0),
    ("publish", 0, 7),
    ("recur", 0, 0),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "store"
    World(folder).tell(QUEUES)
    return folder


def read(rows: tables.Rows) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = oracle.table_of(rows).to_pylist()
    return found


def test_every_message_has_its_rows(folder: Path) -> None:
    expected = Deliveries(folder).rows()
    with delaymq.snapshot(folder) as snapshot:
        assert read(snapshot.to_arrow_batches("deliveries")) == expected
        ranges = pickle.loads(pickle.dumps(snapshot.plan("deliveries", split_bytes=1)))
        assert len(ranges) > 3
        assert [row for one in ranges for row in read(tables.read_range(folder, one))] == expected
        assert sum(one.rows_max for one in ranges) >= len(expected)
        facts = snapshot.end_sequence - snapshot.first_sequence
        assert sum(snapshot.verify(one).records for one in ranges) == facts
    words = {row["outcome"] for row in expected}
    assert words >= {"pending", "ready", "retrying", "acknowledged", "dead_letter", "expired", "cancelled", "refused"}
    assert words >= {"removed", "skipped"}
