"""Damage in a table: an error that names the place, or a list and all that can be read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow
import pytest

import delaymq
from crafting import flip, place_of
from delaymq import Corrupt, DamagedPayload, MissingFile, tables
from tables import oracle, stores


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stores.rich(tmp_path / "store")


def test_a_damaged_payload_is_named_or_left_out(folder: Path) -> None:
    whole = oracle.messages(folder)
    with delaymq.snapshot(folder) as snapshot:
        row = whole[100]
        path, at = place_of(folder, row["body"])
        flip(path, at)
        rows = snapshot.to_arrow_batches("message")
        with pytest.raises(DamagedPayload) as caught:
            list(rows)
        assert (caught.value.path, caught.value.offset) == (row["segment"], row["offset"])
        with pytest.raises(pyarrow.ArrowInvalid, match=f"{row['segment']} is damaged at offset {row['offset']}"):
            pyarrow.table(rows)
        with pytest.raises(DamagedPayload):
            rows.check()
        reported = snapshot.to_arrow_batches("message", on_damage="report")
        assert oracle.read(reported) == [one for one in whole if one["sequence"] != row["sequence"]]
        (damage,) = reported.damages
        assert (damage.path, damage.offset, damage.sequence) == (row["segment"], row["offset"], row["sequence"])
        assert damage.expected == f"payload check {row['payload_check']:08x}"
        reported.check()
        without = snapshot.to_arrow_batches("message", columns=["sequence"])
        assert oracle.table_of(without).num_rows == len(whole)


def test_a_damaged_batch_header_costs_what_only_it_says(folder: Path) -> None:
    whole = oracle.messages(folder)
    one = next(one for one in oracle.visible_batches(folder) if len(one.batch.records) > 20)
    with delaymq.snapshot(folder) as snapshot:
        flip(folder / f"log/{one.segment:010}.segment", one.batch.offset + 20)
        with pytest.raises(Corrupt) as caught:
            list(snapshot.to_arrow_batches("message"))
        assert (caught.value.path, caught.value.offset) == (f"log/{one.segment:010}.segment", one.batch.offset)
        reported = snapshot.to_arrow_batches("message", on_damage="report")
        rows = oracle.read(reported)
        assert [row["sequence"] for row in rows] == [row["sequence"] for row in whole]
        assert [row["body"] for row in rows] == [row["body"] for row in whole]
        lost = {sequence.sequence for _, sequence in one.batch.records}
        assert {row["sequence"] for row in rows if row["published"] is None} <= lost
        assert len(reported.damages) == 1


def test_a_missing_segment_is_named(folder: Path) -> None:
    whole = oracle.messages(folder)
    with delaymq.snapshot(folder) as snapshot:
        gone = whole[300]["segment"]
        (folder / gone).unlink()
        with pytest.raises(MissingFile, match=gone):
            list(snapshot.to_arrow_batches("message"))
        reported = snapshot.to_arrow_batches("message", on_damage="report")
        assert oracle.read(reported) == [row for row in whole if row["segment"] != gone]
        assert [(damage.path, damage.offset, damage.found) for damage in reported.damages] == [(gone, None, None)]


def test_zeros_where_facts_were_durable_are_damage(folder: Path) -> None:
    whole = oracle.messages(folder)
    last = oracle.visible_batches(folder)[-2]
    with delaymq.snapshot(folder) as snapshot:
        path = folder / f"log/{last.segment:010}.segment"
        os.truncate(path, last.batch.offset)
        with pytest.raises(Corrupt, match=path.name):
            list(snapshot.to_arrow_batches("message"))
        reported = snapshot.to_arrow_batches("message", on_damage="report")
        first_lost = last.batch.header["base_sequence"]
        assert oracle.read(reported) == [row for row in whole if row["sequence"] < first_lost]
        assert reported.damages


def test_a_range_of_another_store_is_refused(folder: Path, tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "other") as store:
        store.publish("s", b"")
    with delaymq.snapshot(tmp_path / "other") as other:
        (one,) = other.plan("message")
    with delaymq.snapshot(folder) as snapshot, pytest.raises(delaymq.InvalidArgument, match="another store"):
        snapshot.read(one)
    with pytest.raises(delaymq.InvalidArgument, match="another store"):
        tables.read_range(folder, one)
