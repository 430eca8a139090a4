"""Random histories: each table is what the replay of the log says, and its ranges are the table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import delaymq
from tables import oracle, oracle_actions, oracle_files
from tables.oracle_deliveries import Deliveries
from tables.replaying import Replay
from tables.worlds import Step, World, histories

SPLITS = (1, 300, 5_000, 60_000, 1 << 40)
MINUTE = timedelta(minutes=1)

told = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def stored(history: list[Step], keep_finished: timedelta = timedelta(days=3)) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        World(Path(folder), keep_finished).tell(history)
        yield Path(folder)


@told
@given(histories(), st.sampled_from(SPLITS))
def test_every_message_is_in_one_range(history: list[Step], split_bytes: int) -> None:
    with stored(history) as folder, delaymq.snapshot(folder) as snapshot:
        expected = oracle.messages(folder)
        assert oracle.read(snapshot.to_arrow_batches("message")) == expected
        ranges = snapshot.plan("message", split_bytes=split_bytes)
        assert [row for one in ranges for row in oracle.read(snapshot.read(one))] == expected


@told
@given(histories(), st.sampled_from(SPLITS), st.integers(0, 9_000), st.integers(0, 9_000))
def test_every_pending_message_is_in_one_range(history: list[Step], split_bytes: int, low: int, high: int) -> None:
    with stored(history) as folder, delaymq.snapshot(folder) as snapshot:
        replay = Replay(folder)
        expected = sorted((entry.due_ms, one, entry.message) for one, entry in replay.pending.items())
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
        found = [(row["due"], row["sequence"], row["published_sequence"]) for row in rows]
        assert found == [(oracle.moment(due), one, message) for due, one, message in expected]
        assert [row["subject"] for row in rows] == [replay.names[replay.pending[one].subject] for _, one, _ in expected]
        ranges = snapshot.plan("pending", split_bytes=split_bytes)
        parts = [oracle.read(snapshot.read(one)) for one in ranges]
        assert [row for part in parts for row in part] == rows
        assert all(len(part) <= one.rows_max for part, one in zip(parts, ranges, strict=True))
        start = snapshot.trusted
        due_from, due_before = start + low * timedelta(seconds=1), start + (low + high) * timedelta(seconds=1)
        pruned = snapshot.plan("pending", split_bytes=split_bytes, due_from=due_from, due_before=due_before)
        assert [row for one in pruned for row in oracle.read(snapshot.read(one))] == [
            row for row in rows if due_from <= row["due"] < due_before
        ]


@told
@given(histories(), st.sampled_from(SPLITS))
def test_what_was_done_and_became_ready_is_what_the_log_says(history: list[Step], split_bytes: int) -> None:
    with stored(history) as folder, delaymq.snapshot(folder) as snapshot:
        expected = Replay(folder).ready
        assert oracle.read(snapshot.to_arrow_batches("ready")) == expected
        ranges = snapshot.plan("ready", split_bytes=split_bytes)
        assert [row for one in ranges for row in oracle.read(snapshot.read(one))] == expected
        expected = oracle_actions.actions(folder)
        ranges = snapshot.plan("action", split_bytes=split_bytes)
        found = [row for one in ranges for row in oracle.read(snapshot.read(one))]
        for row in found:
            row["ranges"] = None if row["ranges"] is None else json.loads(row["ranges"])
        assert found == expected
        assert oracle.read(snapshot.to_arrow_batches("segments")) == oracle_files.segments(folder)


@told
@given(histories(), st.sampled_from(SPLITS))
def test_what_became_of_each_message_is_what_the_log_says(history: list[Step], split_bytes: int) -> None:
    with stored(history) as folder, delaymq.snapshot(folder) as snapshot:
        expected = Deliveries(folder).rows()
        ranges = snapshot.plan("deliveries", split_bytes=split_bytes)
        assert [row for one in ranges for row in oracle.plain(snapshot.read(one))] == expected


@told
@given(histories(), st.sampled_from(SPLITS))
def test_what_retention_left_is_a_part_of_what_was_there(history: list[Step], split_bytes: int) -> None:
    steps: list[Step] = [("checkpoint", 0, 0), ("advance", 40, 0), ("ack", 0, 2), ("checkpoint", 0, 0)]
    with stored([*history, *steps * 3], timedelta(0)) as folder, delaymq.snapshot(folder) as snapshot:
        expected = oracle.messages(folder, snapshot.first_sequence)
        for split in (split_bytes, 1 << 40):
            ranges = snapshot.plan("message", split_bytes=split)
            assert [row for one in ranges for row in oracle.read(snapshot.read(one))] == expected
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
        ranges = snapshot.plan("pending", split_bytes=split_bytes)
        assert [row for one in ranges for row in oracle.read(snapshot.read(one))] == rows
        with delaymq.open(folder, clock=delaymq.testing.Clock(snapshot.trusted)) as store:
            assert [(row["sequence"], row["subject"], row["due"]) for row in rows] == [
                (one.receipt.sequence, one.subject, one.due) for one in store.pending(prefix="")
            ]
