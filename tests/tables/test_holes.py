"""Tables of a store whose log has holes: what is kept is told truly, and what is gone is said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import delaymq
from delaymq.simulate.store_copy import copy_of
from delaymq.tables import Snapshot
from tables import oracle, stores
from tables.oracle_actions import actions
from tables.oracle_deliveries import Deliveries

TURNS = stores.HOLLOW_TURNS


@pytest.fixture(scope="module")
def hollow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.hollow(tmp_path_factory.mktemp("hollow") / "store")


def rows_of(snapshot: Snapshot, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyarrow.table(snapshot.to_arrow_batches(table)).to_pylist()
    return found


def test_every_table_reads_past_holes(hollow: Path) -> None:
    with delaymq.snapshot(hollow) as snapshot:
        gone = sum(end - first for first, end in snapshot.retired)
        assert gone > snapshot.end_sequence * 3 // 4
        assert not any(
            first <= row["sequence"] < end for first, end in snapshot.retired for row in rows_of(snapshot, "message")
        )
        assert Counter(row["subject"] for row in rows_of(snapshot, "pending")) == {"far": TURNS // 10}
        for table in ("message", "ready", "action", "deliveries", "segments"):
            assert rows_of(snapshot, table)
            for one in snapshot.plan(table):
                assert snapshot.verify(one).damages == ()


def test_a_simulated_copy_has_the_holes_of_the_store(hollow: Path) -> None:
    with copy_of(hollow) as copy:
        for path in (hollow / "log").iterdir():
            found = (copy / "log" / path.name).stat()
            assert found.st_blocks <= path.stat().st_blocks
            assert found.st_size == path.stat().st_size


def test_messages_are_those_that_the_second_reader_reads(hollow: Path) -> None:
    """Whole rows: what lies beside a hole has its own key, body, place and check, as if there were none."""
    expected = oracle.messages(hollow)
    assert len(expected) > TURNS // 20
    with delaymq.snapshot(hollow) as snapshot:
        assert oracle.read(snapshot.to_arrow_batches("message")) == expected
        for first, end in snapshot.retired:
            rows = oracle.read(snapshot.to_arrow_batches("message", first_sequence=first, end_sequence=end))
            assert rows == []


def test_what_is_kept_between_holes_is_not_taken_for_lost(hollow: Path) -> None:
    with delaymq.snapshot(hollow) as snapshot:
        deliveries = rows_of(snapshot, "deliveries")
        kept = Counter(row["subject"] for row in rows_of(snapshot, "message"))
    outcomes = Counter((row["subject"], row["outcome"]) for row in deliveries)
    assert outcomes.pop(("slow", "ready")) == TURNS // 20
    assert outcomes.pop(("far", "pending")) == TURNS // 10
    assert outcomes.pop(("other", "ready")) == 3
    assert set(outcomes) <= {("noise", "finished"), ("noise", "acknowledged")}
    assert sum(outcomes.values()) == kept["noise"] > 0
    numbers = [row["number"] for row in deliveries if row["subject"] == "slow"]
    assert numbers == [*range(TURNS // 20)]


def test_facts_and_what_waits_beside_holes_are_what_the_second_reader_told_before_there_were_any(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    delaymq.open(path, segment_bytes=4 << 20).close()
    mark = path / "pins" / "archived-0-test"
    mark.touch()  # what an archive waits for stays
    stores.hollow(path, is_busy=True)
    acted, became = actions(path), Deliveries(path).rows()
    mark.unlink()
    with delaymq.open(path, durability="os", segment_bytes=4 << 20, keep_finished=0) as store:
        for _ in range(3):
            store.publish("other", b"")
            store.checkpoint()
    with delaymq.snapshot(path) as snapshot:
        gone = snapshot.retired
        assert gone[-1][0] > acted[-1]["sequence"] // 2
        told = oracle.read(snapshot.to_arrow_batches("action"))
        messages = {row["sequence"] for row in oracle.read(snapshot.to_arrow_batches("message"))}
        now = {row["sequence"]: row for row in oracle.plain(snapshot.to_arrow_batches("deliveries"))}

    def is_kept(row: dict[str, Any]) -> bool:
        is_above = row["sequence"] >= snapshot.first_sequence
        return is_above and not any(first <= row["sequence"] < end for first, end in gone)

    kept = [row for row in acted if is_kept(row)]
    told = [
        row | {"ranges": row["ranges"] and json.loads(row["ranges"])}
        for row in told
        if row["sequence"] <= acted[-1]["sequence"]
    ]
    assert [row["sequence"] for row in told] == [row["sequence"] for row in kept]
    # The name of a consumer that has ended stands in the fact that began it, which may be gone.
    differ = {name for one, other in zip(told, kept, strict=True) for name in one if one[name] != other[name]}
    assert differ <= {"consumer"}
    # Of what lies below the log's beginning less is known: the schedule alone has it.
    waiting = [row for row in became if row["outcome"] in ("pending", "ready") and is_kept(row)]
    assert {row["outcome"] for row in waiting} == {"pending", "ready"}
    assert [now[row["sequence"]] for row in waiting] == waiting
    # What was given back goes on in its message's row, though neither that nor the fact is there any more.
    given_back = [row for row in became if row["outcome"] == "retrying"]
    assert len(given_back) == stores.HOLLOW_TURNS // 40
    assert not any(row["sequence"] in messages for row in given_back)
    told_of = ("sequence", "subject", "group", "group_number", "outcome", "acknowledged", "ended")
    assert [{name: now[row["sequence"]][name] for name in told_of} for row in given_back] == [
        {name: row[name] for name in told_of} for row in given_back
    ]
    assert not any(row["subject"].startswith("%") for row in now.values())


def test_a_segment_that_begins_in_a_hole_has_no_first_time(hollow: Path) -> None:
    with delaymq.snapshot(hollow) as snapshot:
        log = [row for row in rows_of(snapshot, "segments") if row["log"] == "message"]
        begins = {
            row["number"]: any(first <= row["base_sequence"] < end for first, end in snapshot.retired) for row in log
        }
    assert {row["number"]: row["min_time"] is None for row in log} == begins
    assert set(begins.values()) == {True, False}
