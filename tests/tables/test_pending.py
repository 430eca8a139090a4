"""The table `pending` against what the second reader knows of the log, and `verify`."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from crafting import flip, place_of, wait_until
from delaymq import tables
from tables import oracle, stores


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.rich(tmp_path_factory.mktemp("tables") / "store")


def asked(store: delaymq.Store) -> list[tuple[int, str, object]]:
    return [(one.receipt.sequence, one.subject, one.due) for one in store.pending(prefix="")]


def end_of(folder: Path) -> int:
    with delaymq.snapshot(folder) as snapshot:
        return snapshot.end_sequence


def test_what_is_pending_is_what_the_log_and_the_store_say(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
    by_sequence = {row["sequence"]: row for row in oracle.messages(folder)}
    records = [record for one in oracle.visible_batches(folder) for _, record in one.batch.records]
    gone = {record.fields["target_sequence"] for record in records if record.kind in ("cancel", "move")}
    moved = {record.sequence: record.fields for record in records if record.kind == "move"}
    ready = {sequence for record in records if record.kind == "ready" for _, sequence, _ in record.fields["entries"]}
    for row in rows:
        move = moved.get(row["sequence"])
        origin = by_sequence[row["published_sequence"]]
        assert row["sequence"] not in gone | ready
        assert (row["sequence"] == row["published_sequence"]) == (move is None)
        assert row["due"] == (origin["due"] if move is None else oracle.moment(move["due_ms"]))
        same = ("subject", "message_id", "tags", "attributes", "body", "body_bytes", "payload_check")
        assert {name: row[name] for name in same} == {name: origin[name] for name in same}
        assert timedelta(0) <= origin["published"] - row["published"] < timedelta(seconds=10)
        if move is None:
            assert row["epoch"] == origin["epoch"]
            assert row["key"] == origin["key"]
    assert sum(row["sequence"] != row["published_sequence"] for row in rows) == len(moved)
    keyed = [row["key"] for row in rows if row["key"] is not None]
    assert len(keyed) == len(set(keyed)) == 2
    waits = {s for s, row in by_sequence.items() if row["due"] - row["published"] > timedelta(minutes=1)}
    replaced = {s for s in waits - gone if by_sequence[s]["key"] is not None and by_sequence[s]["body"] == b"keyed"}
    repeated = {s for s in waits if by_sequence[s]["message_id"] == "once"}
    assert len(repeated) == 2, "the second one is dropped"
    repeated.remove(min(repeated))
    assert waits - gone - replaced - repeated <= {row["sequence"] for row in rows}


def test_it_equals_the_list_of_the_open_store(tmp_path: Path) -> None:
    folder = stores.rich(tmp_path / "store")
    with delaymq.open(folder) as store:
        for _ in range(2):
            store.publish_many("more", [b"x"] * 50, 7_200)
            store.checkpoint()
            moved = store.publish("more", b"moved", delay=4_000)
            moved = store.move(store.move(moved, delay=5_000).receipt or moved, delay=6_000).receipt or moved
            expected, last = asked(store), moved.sequence
            # What came last is vouched for when the store has been idle for a moment.
            wait_until(lambda last=last: end_of(folder) > last)
            with delaymq.snapshot(folder) as snapshot:
                rows = oracle.read(snapshot.to_arrow_batches("pending"))
                assert [(row["sequence"], row["subject"], row["due"]) for row in rows] == expected
                ranges = snapshot.plan("pending", subjects=["more"])
                again = pickle.loads(pickle.dumps(ranges))
                store.publish("more", b"behind the snapshot", delay=3_000)
                store.checkpoint()
                found = [row for one in again for row in oracle.read(tables.read_range(folder, one))]
                assert found == [row for row in rows if row["subject"] == "more"]
                assert sum(one.rows_max for one in ranges) == len(rows)


def test_options_and_columns(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
        middle = rows[len(rows) // 2]
        for options, keeps in (
            ({"due_from": middle["due"]}, lambda row: row["due"] >= middle["due"]),
            ({"due_before": middle["due"]}, lambda row: row["due"] < middle["due"]),
            ({"subjects": ["mail"]}, lambda row: row["subject"] == "mail"),
            ({"first_sequence": middle["sequence"]}, lambda row: row["sequence"] >= middle["sequence"]),
            ({"published_before": middle["published"]}, lambda row: row["published"] < middle["published"]),
        ):
            found = oracle.read(snapshot.to_arrow_batches("pending", **options))
            assert found == [row for row in rows if keeps(row)], options  # type: ignore[no-untyped-call]
        narrow = oracle.table_of(snapshot.to_arrow_batches("pending", columns=["due", "published_sequence"]))
        assert narrow.to_pylist() == [{name: row[name] for name in ("due", "published_sequence")} for row in rows]
        schema = oracle.table_of(snapshot.to_arrow_batches("pending")).schema
        assert tuple((field.name, str(field.type)) for field in schema) == tables.columns_of("pending")


def test_ranges_follow_the_due_times_of_runs_and_of_what_is_recent(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    start = datetime.now(tz=UTC)
    with delaymq.open(folder, durability="os") as store:
        for turn in range(4):
            delays = [3_600 + (place * 7 + turn) % 14_000 for place in range(2_000)]
            receipts = store.publish_many("far", [b"x" * (turn * 100)] * 2_000, delays)
            if turn < 3:
                store.checkpoint()
        wait_until(lambda: end_of(folder) > receipts[-1].sequence)
        snapshot = delaymq.snapshot(folder)
    with snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("pending", columns=("sequence", "due")))
        assert len(rows) == 8_000
        (whole,) = snapshot.plan("pending")
        ranges = snapshot.plan("pending", split_bytes=whole.bytes // 10)
        assert 8 <= len(ranges) <= 14
        assert max(one.bytes for one in ranges) <= whole.bytes // 10
        found = [oracle.read(snapshot.read(one, columns=("sequence", "due"))) for one in ranges]
        assert [row for part in found for row in part] == rows
        assert all(len(part) <= one.rows_max <= 3_000 for part, one in zip(found, ranges, strict=True))
        assert len(whole.files) == 3
        hours = [start + timedelta(hours=hour) for hour in (3, 4)]
        pruned = snapshot.plan("pending", split_bytes=20_000, due_from=hours[0], due_before=hours[1])
        asked = [row for row in rows if hours[0] <= row["due"] < hours[1]]
        again = [row for one in pruned for row in oracle.read(snapshot.read(one, columns=("sequence", "due")))]
        assert again == asked
        assert sum(one.bytes for one in pruned) < whole.bytes / 3
        for nothing in ({"due_from": start + timedelta(hours=7)}, {"due_before": start + timedelta(minutes=59)}):
            assert snapshot.plan("pending", **nothing) == ()  # type: ignore[arg-type]
        last = max(row["sequence"] for row in rows)
        assert snapshot.plan("pending", first_sequence=last + 1) == ()
        # The tail is in no run: without those, it is what is left.
        assert {one.files for one in snapshot.plan("pending", first_sequence=last, split_bytes=1)} == {()}


def test_an_empty_schedule(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store"):
        pass
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        assert snapshot.plan("pending") == ()
        assert oracle.table_of(snapshot.to_arrow_batches("pending")).num_rows == 0


def test_verify_counts_everything_and_names_what_is_damaged(tmp_path: Path) -> None:
    folder = stores.rich(tmp_path / "store")
    records = [record for one in oracle.visible_batches(folder) for _, record in one.batch.records]
    with delaymq.snapshot(folder) as snapshot:
        for split_bytes in (1, 50_000, 1 << 30):
            found = [snapshot.verify(one) for one in snapshot.plan("message", split_bytes=split_bytes)]
            assert sum(one.records for one in found) == len(records)
            assert all(one.damages == () for one in found)
        (pending,) = snapshot.plan("pending")
        assert snapshot.verify(pending).records == pending.rows_max
        row = oracle.messages(folder)[100]
        flip(*place_of(folder, row["body"]))
        (whole,) = snapshot.plan("message", subjects=["absent", "mail"])
        verified = snapshot.verify(whole)
        assert (verified.records, len(verified.damages)) == (len(records), 1)
        (damage,) = verified.damages
        assert (damage.path, damage.offset, damage.sequence) == (row["segment"], row["offset"], row["sequence"])
