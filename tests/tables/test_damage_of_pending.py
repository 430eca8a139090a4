"""Damage in `pending`: it is named, all else is there, and a range knows nothing of damage in what it does not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import delaymq
from crafting import BLOCK_BYTES, flip, place_of, runs_of
from delaymq import Corrupt, DamagedPayload, MissingFile, tables
from delaymq.tables import Damage, Range, Snapshot
from delaymq.testing import Clock
from format_reader.runs import BLOCK_ROWS, GROUP_BLOCKS, SCHEDULE, read_run
from tables import oracle

ROWS = 2_000
FAR = 3_600
GROUP_BYTES = 20_000
NARROW = ("sequence", "due")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs, one of copied payloads, and a tail; some entries were moved out of the runs."""
    with delaymq.open(tmp_path / "store", clock=Clock(), durability="os") as store:
        receipts: list[delaymq.Receipt] = []
        for turn in range(2):
            delays = [FAR + turn + place * 7 for place in range(ROWS)]
            receipts += store.publish_many("far", [b"%d/%d." % (turn, place) for place in range(ROWS)], delays)
            store.checkpoint()
        store.move(receipts[3], delay=FAR * 2)
        store.publish_many("far", [b"tail %d." % place for place in range(200)], FAR * 3)
    assert len(runs_of(tmp_path / "store", SCHEDULE)) == 2
    return tmp_path / "store"


def read_each(
    snapshot: Snapshot, ranges: tuple[Range, ...], columns: tuple[str, ...] | None = NARROW
) -> list[tuple[list[oracle.Row], tuple[Damage, ...]]]:
    """Rows and damages of each range, read by itself."""
    found = []
    for one in ranges:
        reported = snapshot.read(one, columns=columns, on_damage="report")
        found.append((oracle.read(reported), reported.damages))
    return found


def raising(snapshot: Snapshot, ranges: tuple[Range, ...], columns: tuple[str, ...] | None = NARROW) -> list[int]:
    """The places of those that cannot be read without a word."""
    places = []
    for place, one in enumerate(ranges):
        try:
            list(snapshot.read(one, columns=columns))
        except (Corrupt, DamagedPayload, MissingFile):
            places.append(place)
    return places


def test_a_block_that_is_damaged_costs_its_rows_and_is_told_by_ranges_that_read_it(folder: Path) -> None:
    path = runs_of(folder, SCHEDULE)[0]
    block = GROUP_BLOCKS * 2 + 1
    keys = [(row["due_ms"], row["sequence"]) for row in read_run(path.read_bytes()).rows]
    lost = {sequence for _, sequence in keys[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS]}
    with delaymq.snapshot(folder) as snapshot:
        whole = oracle.read(snapshot.to_arrow_batches("pending", columns=NARROW))
        ranges = snapshot.plan("pending", split_bytes=GROUP_BYTES)
        assert len(ranges) >= 8
        flip(path, BLOCK_BYTES * (1 + block) + 100)
        with pytest.raises(Corrupt) as caught:
            list(snapshot.to_arrow_batches("pending", columns=NARROW))
        assert caught.value.path == f"runs/{path.name}"
        reported = snapshot.to_arrow_batches("pending", columns=NARROW, on_damage="report")
        left = oracle.read(reported)
        assert left == [row for row in whole if row["sequence"] not in lost]
        (damage,) = reported.damages
        assert (damage.path, damage.offset) == (f"runs/{path.name}", BLOCK_BYTES * (1 + block))

        parts = read_each(snapshot, ranges)
        assert [row for rows, _ in parts for row in rows] == left
        told = [place for place, (_, damages) in enumerate(parts) if damages]
        assert {one for _, damages in parts for one in damages} == {damage}
        assert told == raising(snapshot, ranges)
        # The block's rows have due times of one stretch: few ranges reach into it, and none other reads it.
        assert 1 <= len(told) <= 3
        assert told == list(range(told[0], told[-1] + 1))
        damages = {one for part in ranges for one in snapshot.verify(part).damages}
        assert damages == {damage}


def test_a_payload_that_is_damaged_costs_its_row(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        whole = oracle.read(snapshot.to_arrow_batches("pending"))
        ranges = snapshot.plan("pending", split_bytes=GROUP_BYTES)
        in_log = [row for row in whole if row["segment"].startswith("log/")]
        row = in_log[len(in_log) // 2]
        path, at = place_of(folder, row["body"])
        flip(path, at)
        with pytest.raises(DamagedPayload) as caught:
            list(snapshot.to_arrow_batches("pending"))
        assert (caught.value.path, caught.value.offset) == (row["segment"], row["offset"])
        left = [one for one in whole if one["sequence"] != row["sequence"]]
        parts = read_each(snapshot, ranges, None)
        assert [one for rows, _ in parts for one in rows] == left
        (damage,) = [one for _, damages in parts for one in damages]
        assert (damage.path, damage.offset) == (row["segment"], row["offset"])
        assert damage.sequence == row["published_sequence"]
        assert len(raising(snapshot, ranges, None)) == 1
        assert raising(snapshot, ranges) == []
        narrow = snapshot.to_arrow_batches("pending", columns=NARROW)
        assert oracle.read(narrow) == [{name: one[name] for name in NARROW} for one in whole]


def test_a_payload_that_a_run_has_copied_is_checked(tmp_path: Path) -> None:
    """Copies are made where the log's file would otherwise be kept for few messages."""
    folder = tmp_path / "store"
    clock = Clock()
    with delaymq.open(folder, clock=clock, durability="os", segment_bytes=64 * 1024, keep_finished=0) as store:
        store.publish_many("far", [b"kept %d." % place for place in range(20)], FAR * 1_000)
        with store.subscribe("soon", group="g") as subscription:
            for _ in range(12):
                store.publish_many("soon", [bytes(500)] * 50)
                messages = next(subscription.batches(200, wait=1))
                subscription.ack(messages)
                subscription.flush()
                clock.advance(FAR)
                store.checkpoint()
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("pending"))
        copied = [row for row in rows if row["segment"].startswith("runs/")]
        assert len(rows) == 20
        assert copied
        row = copied[3]
        path = folder / row["segment"]
        flip(path, path.read_bytes().index(row["body"], row["offset"]))
        reported = snapshot.to_arrow_batches("pending", on_damage="report")
        assert oracle.read(reported) == [one for one in rows if one["sequence"] != row["sequence"]]
        assert [(one.path, one.offset) for one in reported.damages] == [(row["segment"], row["offset"])]


def without_a_run(folder: Path) -> str:
    path = runs_of(folder, SCHEDULE)[0]
    path.unlink()
    return f"runs/{path.name}"


def without_a_footer(folder: Path) -> str:
    path = runs_of(folder, SCHEDULE)[1]
    flip(path, path.stat().st_size - 60)
    return f"runs/{path.name}"


def without_a_tail(folder: Path) -> str:
    one = oracle.visible_batches(folder)[-3]
    flip(folder / f"log/{one.segment:010}.segment", one.batch.offset + 20)
    return f"log/{one.segment:010}.segment"


@pytest.mark.parametrize("loses", [without_a_run, without_a_footer, without_a_tail])
def test_what_the_schedule_is_made_from_is_named_where_it_is_lost(folder: Path, loses: Callable[[Path], str]) -> None:
    with delaymq.snapshot(folder) as snapshot:
        ranges = snapshot.plan("pending", split_bytes=GROUP_BYTES)
        path = loses(folder)
        for one in (ranges[0], ranges[-1]):
            # Without it nobody can say what is pending: that is no damage beside rows.
            for rows in (snapshot.read(one), tables.read_range(folder, one, on_damage="report")):
                with pytest.raises((Corrupt, MissingFile)) as caught:
                    list(rows)
                assert caught.value.path == path
            with pytest.raises((Corrupt, MissingFile)):
                snapshot.verify(one)
