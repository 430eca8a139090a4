"""What was loaded is in every table under its own sequences, as what was published is."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import delaymq
from crafting import flip
from delaymq import Loaded, Publish, tables
from delaymq.errors import Corrupt, MissingFile
from delaymq.loading import Stager
from delaymq.testing import Clock

ROWS = 12_000
RUN_ROWS = 5_000
SUBJECTS = ("orders", "mail", "bills")
CONTENT = ("subject", "due", "body", "message_id")


class World:
    """A store into which messages are loaded between others that are published."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, Clock(datetime.now(UTC))
        with self.opened() as store:
            store.publish_many("orders", [b"before"] * 50, [0] * 10 + [60] * 40)
            begun = self.clock.now + timedelta(minutes=10)
            rows: list[dict[str, Any]] = [
                {
                    "subject": SUBJECTS[number % 3],
                    "due": begun + timedelta(milliseconds=(number * 7_919) % 100_000),
                    "body": b"%d" % number,
                    "message_id": f"m-{number}",
                }
                for number in range(ROWS)
            ]
            with Stager(path, run_rows_max=RUN_ROWS) as stager:
                stager.add(pyarrow.Table.from_pylist(rows, schema=SCHEMA))
                runs = stager.finish()
            self.loaded: Loaded = store.load("job", runs)
            self.names = [run.name for run in runs]
            store.publish_many([Publish("orders", b"after", delay=60)] * 50)
        # Runs follow each other; in each, rows are by due time, and among equal ones as they came.
        parts = [rows[first : first + RUN_ROWS] for first in range(0, ROWS, RUN_ROWS)]
        self.rows = [row for part in parts for row in sorted(part, key=lambda row: row["due"])]

    def opened(self) -> delaymq.Store:
        return delaymq.open(self.path, clock=self.clock, durability="os", segment_bytes=1 << 20)

    def expected(self, first: int = 0, end: int = ROWS) -> list[dict[str, Any]]:
        base = self.loaded.first_sequence
        return [{"sequence": base + place, **self.rows[place]} for place in range(first, end)]


SCHEMA = pyarrow.schema(
    [
        ("subject", pyarrow.string()),
        ("due", pyarrow.timestamp("us", tz="UTC")),
        ("body", pyarrow.binary()),
        ("message_id", pyarrow.string()),
    ]
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("loads") / "store")


@pytest.fixture
def own(tmp_path: Path) -> World:
    return World(tmp_path / "store")


def rows_of(path: Path, table: Any, **asked: Any) -> list[dict[str, Any]]:
    with delaymq.snapshot(path) as snapshot:
        rows = snapshot.to_arrow_batches(table, **asked)
        found = pyarrow.RecordBatchReader.from_stream(rows).read_all()
    found.validate(full=True)
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


def content(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in ("sequence", *CONTENT)} for row in rows]


def test_messages_stand_where_their_load_does(world: World) -> None:
    rows = rows_of(world.path, "message")
    assert [row["sequence"] for row in rows] == sorted(row["sequence"] for row in rows)
    assert Counter(row["body"] in (b"before", b"after") for row in rows) == {True: 100, False: ROWS}
    loaded = [row for row in rows if row["message_id"]]
    assert content(loaded) == world.expected()
    assert {row["segment"] for row in loaded} == {f"loads/{name}" for name in world.names}
    [published] = {row["published"] for row in loaded}
    after = next(row for row in rows if row["body"] == b"after")
    assert published <= after["published"]
    assert after["sequence"] >= world.loaded.first_sequence + ROWS
    assert len({(row["segment"], row["offset"]) for row in loaded}) == ROWS


@pytest.mark.parametrize("table", ["message", "pending"])
def test_what_is_asked_for_is_what_passes_the_same_filter(world: World, table: str) -> None:
    base = world.loaded.first_sequence
    whole = rows_of(world.path, table)
    some = {"first_sequence": base + 4_990, "end_sequence": base + 5_010}
    found = rows_of(world.path, table, **some)
    assert found == [row for row in whole if base + 4_990 <= row["sequence"] < base + 5_010]
    assert len(found) == 20
    found = rows_of(world.path, table, subjects=["mail", "nothing"])
    assert found == [row for row in whole if row["subject"] == "mail"]
    middle = world.clock.now + timedelta(minutes=10, seconds=50)
    found = rows_of(world.path, table, due_from=middle)
    assert found == [row for row in whole if row["due"] >= middle]
    assert 0 < len(found) < ROWS
    [narrow] = {tuple(row) for row in rows_of(world.path, table, columns=["sequence", "subject"])}
    assert narrow == ("sequence", "subject")
    published = next(row["published"] for row in whole if row["message_id"])
    assert rows_of(world.path, table, published_from=published + timedelta(days=1)) == []


def test_what_is_pending_is_all_that_was_loaded(world: World) -> None:
    loaded = [row for row in rows_of(world.path, "pending") if row["message_id"]]
    assert content(sorted(loaded, key=lambda row: row["sequence"])) == world.expected()
    assert {row["segment"] for row in loaded} == {f"loads/{name}" for name in world.names}
    assert {row["published_sequence"] - row["sequence"] for row in loaded} == {0}


@pytest.mark.parametrize("table", ["message", "pending", "deliveries"])
def test_ranges_are_read_anywhere(world: World, table: Any) -> None:
    with delaymq.snapshot(world.path) as snapshot:
        ranges = snapshot.plan(table, split_bytes=1)
        whole = pyarrow.table(snapshot.to_arrow_batches(table)).to_pylist()
    assert len(ranges) > 1
    parts = [pickle.loads(pickle.dumps(one)) for one in ranges]
    found = [row for part in parts for row in pyarrow.table(tables.read_range(str(world.path), part)).to_pylist()]
    assert found == whole
    if table != "deliveries":  # which names no files but those of the log
        assert any("loads/" in path for part in parts for path, _, _ in part.files)


def test_each_file_is_a_row_of_segments(world: World) -> None:
    rows = {row["path"]: row for row in rows_of(world.path, "segments")}
    base = world.loaded.first_sequence
    for number, name in enumerate(world.names):
        row = rows[f"loads/{name}"]
        assert (row["log"], row["sealed"]) == ("schedule", True)
        assert row["base_sequence"] == base + number * RUN_ROWS
        assert row["rows"] == row["end_sequence"] - row["base_sequence"] == min(RUN_ROWS, ROWS - number * RUN_ROWS)
        assert row["bytes"] == (world.path / "loads" / name).stat().st_size


def test_all_of_it_is_verified(own: World) -> None:
    with delaymq.snapshot(own.path) as snapshot:
        for table in ("message", "pending", "deliveries", "segments"):
            assert [snapshot.verify(one).damages for one in snapshot.plan(table)] == [()] * len(snapshot.plan(table))
        records = sum(snapshot.verify(one).records for one in snapshot.plan("message"))
        assert records > ROWS + 100
    path = own.path / "loads" / own.names[1]
    flip(path, path.read_bytes().index(b"m-7777"))
    with delaymq.snapshot(own.path) as snapshot:
        [damage] = [damage for one in snapshot.plan("message") for damage in snapshot.verify(one).damages]
        assert damage.path == f"loads/{own.names[1]}"
        with pytest.raises(Corrupt) as raised:
            list(snapshot.to_arrow_batches("message"))
        assert raised.value.path == damage.path
        rows = snapshot.to_arrow_batches("message", on_damage="report")
        found = [row["sequence"] for row in pyarrow.table(rows).to_pylist()]
        assert len(found) == ROWS + 99
        assert [one.path for one in rows.damages] == [damage.path]


def test_a_file_that_is_gone_is_named(own: World) -> None:
    with delaymq.snapshot(own.path) as snapshot:
        (own.path / "loads" / own.names[2]).unlink()
        with pytest.raises(MissingFile) as raised:
            list(snapshot.to_arrow_batches("message"))
        assert raised.value.path == f"loads/{own.names[2]}"


def test_what_became_of_each_is_followed(own: World) -> None:
    """Cancelled, moved, delivered, given back and put away, over a restart."""
    base = own.loaded.first_sequence
    with own.opened() as store:
        receipts = {entry.receipt.sequence: entry.receipt for entry in store.pending()}
        cancelled = [base + place for place in range(0, ROWS, 1_000)]
        moved = [base + place for place in range(1, ROWS, 1_000)]
        assert store.cancel_many([receipts[one] for one in cancelled]) == [delaymq.Outcome.DONE] * len(cancelled)
        store.move_many([receipts[one] for one in moved], delay=timedelta(days=30))
        store.checkpoint()
    with own.opened() as store:
        own.clock.advance(timedelta(minutes=12))
        done, back, away = [], [], []
        with store.subscribe("mail", group="g") as messages:
            for number in range(1_000):
                message = messages.get(10)
                assert message is not None
                if number % 100 == 7:
                    message.nack(delay=timedelta(days=1))
                    back.append(message.sequence)
                elif number % 100 == 9:
                    message.dead_letter("no")
                    away.append(message.sequence)
                else:
                    message.ack()
                    done.append(message.sequence)
            messages.flush(10)
        store.checkpoint()
    rows = rows_of(own.path, "deliveries", subjects=["mail"])
    outcomes = {row["sequence"]: row for row in rows}
    assert len(outcomes) == len(rows) == ROWS // 3
    by = {outcome: {one for one, row in outcomes.items() if row["outcome"] == outcome} for outcome in OUTCOMES}
    mail = {base + place for place in range(ROWS) if own.rows[place]["subject"] == "mail"}
    assert by["cancelled"] == mail & set(cancelled)
    assert by["pending"] == mail & set(moved)
    assert (by["acknowledged"], by["retrying"], by["dead_letter"]) == (set(done), set(back), set(away))
    assert by["ready"] == mail - set(cancelled) - set(moved) - set(done) - set(back) - set(away)
    for sequence in done:
        row, place = outcomes[sequence], sequence - base
        assert (row["message_id"], row["due"]) == (own.rows[place]["message_id"], own.rows[place]["due"])
        assert row["due"] <= row["ready"] <= row["delivered"] <= row["acknowledged"]
    became_ready = rows_of(own.path, "ready")
    assert all(row["number"] is not None for row in became_ready), "numbers are counted over the load, too"
    assert len([row for row in became_ready if row["sequence"] < base]) == 50
    ready = {row["published_sequence"] for row in became_ready if row["subject"] == "mail"}
    assert ready >= mail - set(cancelled) - set(moved)
    pending = {row["published_sequence"]: row for row in rows_of(own.path, "pending", subjects=["mail"])}
    assert set(pending) == by["pending"]
    assert {row["body"] for row in pending.values()} == {own.rows[one - base]["body"] for one in by["pending"]}
    assert len(rows_of(own.path, "message", subjects=["mail"])) == ROWS // 3


OUTCOMES = ("cancelled", "pending", "acknowledged", "retrying", "dead_letter", "ready")


def test_what_waits_stays_in_all_tables_however_old_its_load_and_whatever_was_merged(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock(datetime.now(UTC))
    due = clock.now + timedelta(days=30)
    with delaymq.open(path, clock=clock, durability="os") as store:
        for job in range(10):
            rows = [{"subject": "orders", "due": due, "body": b"%d" % row, "message_id": None} for row in range(100)]
            with Stager(path) as stager:
                stager.add(pyarrow.Table.from_pylist(rows, schema=SCHEMA))
                store.load(f"job-{job}", stager.finish())
        for _ in range(5):
            clock.advance(timedelta(days=1))
            store.publish("mail", b"", at=due)
            store.checkpoint()
    for table in ("message", "pending", "deliveries"):
        assert Counter(row["subject"] for row in rows_of(path, table)) == {"orders": 1_000, "mail": 5}, table
    with delaymq.snapshot(path) as snapshot:
        assert snapshot.retired == ()
