"""The tables of the golden store, as the second reader and the open store have them."""

from __future__ import annotations

import json
from pathlib import Path

import delaymq
from crafting import contents
from delaymq.tables import Snapshot
from delaymq.testing import Clock
from format_reader.checkpoints import read_checkpoint
from format_reader.golden import laid
from format_reader.store import numbered
from tables import oracle, oracle_actions
from tables.oracle_deliveries import Deliveries
from tables.replaying import Replay

SAME = ("body", "message_id", "tags", "attributes")
SPLITS = (1, 500, 1 << 40)


def read_split(snapshot: Snapshot, table: str, split_bytes: int) -> list[oracle.Row]:
    ranges = snapshot.plan(table, split_bytes=split_bytes)
    return [row for one in ranges for row in oracle.read(snapshot.read(one))]


def test_messages(tmp_path: Path) -> None:
    folder = laid(tmp_path / "store")
    before = contents(folder)
    expected = oracle.messages(folder)
    assert len(expected) >= 10
    with delaymq.snapshot(folder) as snapshot:
        assert oracle.read(snapshot.to_arrow_batches("message")) == expected
        for split_bytes in SPLITS:
            assert read_split(snapshot, "message", split_bytes) == expected
        assert [one.damages for one in map(snapshot.verify, snapshot.plan("message"))] == [()]
    after = contents(folder)
    assert {path: after[path] for path in before} == before


def test_what_is_pending(tmp_path: Path) -> None:
    folder = laid(tmp_path / "store")
    messages = {row["sequence"]: row for row in oracle.messages(folder)}
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
        for split_bytes in SPLITS:
            assert read_split(snapshot, "pending", split_bytes) == rows
        trusted = snapshot.trusted
    assert len(rows) >= 3
    for row in rows:
        origin = messages[row["published_sequence"]]
        assert {name: row[name] for name in SAME} == {name: origin[name] for name in SAME}
    # An open takes the last batch, too, which nothing in the log vouches for: the table has it from then on.
    with delaymq.open(folder, clock=Clock(trusted)) as store:
        listed = [(one.receipt.sequence, one.subject, one.due) for one in store.pending(prefix="")]
    with delaymq.snapshot(folder) as snapshot:
        for split_bytes in SPLITS:
            found = read_split(snapshot, "pending", split_bytes)
            assert [(row["sequence"], row["subject"], row["due"]) for row in found] == listed


def test_what_is_pending_is_what_the_facts_come_to(tmp_path: Path) -> None:
    folder = laid(tmp_path / "store")
    pending = Replay(folder).pending
    expected = sorted((entry.due_ms, sequence, entry.message) for sequence, entry in pending.items())
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
    assert [(row["due"], row["sequence"], row["published_sequence"]) for row in rows] == [
        (oracle.moment(due), sequence, message) for due, sequence, message in expected
    ]


def test_what_became_ready_and_what_became_of_messages(tmp_path: Path) -> None:
    folder = laid(tmp_path / "store")
    ready, became = Replay(folder).ready, Deliveries(folder).rows()
    assert len(ready) >= 3
    with delaymq.snapshot(folder) as snapshot:
        for split_bytes in SPLITS:
            assert read_split(snapshot, "ready", split_bytes) == ready
            assert read_split(snapshot, "deliveries", split_bytes) == became
    assert {row["outcome"] for row in became} >= {"pending", "acknowledged", "cancelled"}


def test_facts_and_files(tmp_path: Path) -> None:
    folder = laid(tmp_path / "store")
    expected = oracle_actions.actions(folder)
    with delaymq.snapshot(folder) as snapshot:
        for split_bytes in SPLITS:
            found = read_split(snapshot, "action", split_bytes)
            assert [row | {"ranges": row["ranges"] and json.loads(row["ranges"])} for row in found] == expected
        files = oracle.read(snapshot.to_arrow_batches("segments"))
        facts = sum(row["rows"] for row in files if row["log"] == "message")
        assert facts == snapshot.end_sequence - snapshot.first_sequence
        assert {row["log"] for row in files} == {"message", "schedule", "dispatch"}
        for one in map(snapshot.verify, (*snapshot.plan("segments"), *snapshot.plan("ready"))):
            assert one.damages == ()


def test_the_store_has_runs_and_a_tail(tmp_path: Path) -> None:
    folder = laid(tmp_path / "store")
    assert len(numbered(folder / "runs", "run")) >= 2
    newest = list(numbered(folder / "checkpoints", "checkpoint").values())[-1]
    covered = read_checkpoint(newest.read_bytes())["body"]["position"]["end"]
    assert max(one.end for one in oracle.visible_batches(folder)) > covered
