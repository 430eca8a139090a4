"""The table `message` against the second reader of the format."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq import tables
from tables import oracle, stores


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.rich(tmp_path_factory.mktemp("tables") / "store")


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[oracle.Row]:
    return oracle.messages(folder)


def test_every_row_is_what_the_second_reader_reads(folder: Path, expected: list[oracle.Row]) -> None:
    assert len(expected) > 800
    with delaymq.snapshot(folder) as snapshot:
        assert oracle.read(snapshot.to_arrow_batches("message")) == expected
        assert snapshot.first_sequence == 1
        assert snapshot.end_sequence == oracle.visible_batches(folder)[-1].batch.next_sequence
        assert len({row["segment"] for row in expected}) > 3
        assert any(row["key"] for row in expected)


def test_the_columns_are_those_that_are_documented(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        schema = oracle.table_of(snapshot.to_arrow_batches("message")).schema
        found = tuple((field.name, str(field.type)) for field in schema)
        assert found == tables.columns_of("message")
        assert all(field.nullable for field in schema)
        assert schema.metadata == {b"delaymq.table": b"message", b"delaymq.version": str(tables.VERSION).encode()}
        assert snapshot.tables == tables.TABLES


@pytest.mark.parametrize("columns", [("due", "sequence"), ("subject",), ("body",), ("key",), ()])
def test_some_columns_in_any_order(folder: Path, expected: list[oracle.Row], columns: tuple[str, ...]) -> None:
    with delaymq.snapshot(folder) as snapshot:
        table = oracle.table_of(snapshot.to_arrow_batches("message", columns=columns))
        assert tuple(table.column_names) == columns
        assert table.num_rows == len(expected)
        assert table.to_pylist() == [{name: row[name] for name in columns} for row in expected]


@pytest.mark.parametrize("split_bytes", [1, 5_000, 100_000, 1 << 40])
def test_ranges_have_each_row_once_in_the_order_of_the_log(
    folder: Path, expected: list[oracle.Row], split_bytes: int
) -> None:
    with delaymq.snapshot(folder) as snapshot:
        ranges = snapshot.plan("message", split_bytes=split_bytes)
        found = [row for one in ranges for row in oracle.read(snapshot.read(one))]
        assert found == expected
        for one in ranges:
            rows = oracle.read(snapshot.read(one))
            assert len(rows) <= one.rows_max
            assert all(one.first_sequence <= row["sequence"] < one.end_sequence for row in rows)
            assert {row["segment"] for row in rows} <= {path for path, _, _ in one.files}
        if split_bytes == 1 << 40:
            assert len(ranges) == 1
        elif split_bytes > 1:
            assert all(one.bytes <= split_bytes for one in ranges[:-1] if len(one.files) > 1)
        else:
            assert len(ranges) > 20


def test_options_choose_exactly_what_the_same_filter_does(folder: Path, expected: list[oracle.Row]) -> None:
    middle = expected[len(expected) // 2]
    millisecond = timedelta(milliseconds=1)
    options = [
        ({"subjects": ["mail"]}, lambda row: row["subject"] == "mail"),
        ({"subjects": ("mail", "größe", "absent")}, lambda row: row["subject"] in ("mail", "größe")),
        ({"subjects": ["absent"]}, lambda _: False),
        ({"subjects": []}, lambda _: False),
        ({"first_sequence": middle["sequence"]}, lambda row: row["sequence"] >= middle["sequence"]),
        ({"end_sequence": middle["sequence"]}, lambda row: row["sequence"] < middle["sequence"]),
        ({"published_from": middle["published"]}, lambda row: row["published"] >= middle["published"]),
        ({"published_before": middle["published"]}, lambda row: row["published"] < middle["published"]),
        ({"due_from": middle["due"] + millisecond}, lambda row: row["due"] >= middle["due"] + millisecond),
        ({"due_from": middle["due"] - millisecond / 2}, lambda row: row["due"] >= middle["due"]),
        (
            {"due_before": middle["due"], "subjects": ["mail"]},
            lambda r: r["due"] < middle["due"] and r["subject"] == "mail",
        ),
        ({"first_sequence": 10**15}, lambda _: False),
    ]
    with delaymq.snapshot(folder) as snapshot:
        for asked, keeps in options:
            found = oracle.read(snapshot.to_arrow_batches("message", **asked))  # type: ignore[arg-type]
            assert found == [row for row in expected if keeps(row)], asked  # type: ignore[no-untyped-call]
            for split_bytes in (1, 20_000):
                ranges = snapshot.plan("message", split_bytes=split_bytes, **asked)  # type: ignore[arg-type]
                assert [row for one in ranges for row in oracle.read(snapshot.read(one))] == found, asked


def test_what_is_not_asked_for_is_not_read(folder: Path, expected: list[oracle.Row]) -> None:
    with delaymq.snapshot(folder) as snapshot:
        whole = sum(one.bytes for one in snapshot.plan("message"))
        part = snapshot.plan("message", first_sequence=expected[-1]["sequence"] - 5)
        assert 0 < sum(one.bytes for one in part) < whole / 2
        assert {path for one in part for path, _, _ in one.files} == {expected[-1]["segment"]}


def test_another_process_reads_a_range(folder: Path, expected: list[oracle.Row], tmp_path: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        ranges = snapshot.plan("message", subjects=["mail"], split_bytes=30_000)
        assert len(ranges) > 2
        assert max(len(pickle.dumps(one)) for one in ranges) < 2_000
        (tmp_path / "ranges").write_bytes(pickle.dumps(ranges))
        program = (
            "import pickle, sys, pyarrow, delaymq.tables as tables\n"
            "for one in pickle.load(open(sys.argv[2], 'rb')):\n"
            "    rows = tables.read_range(sys.argv[1], one, columns=['sequence'])\n"
            "    print(*pyarrow.table(rows)['sequence'].to_pylist(), sep='\\n')\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program, str(folder), str(tmp_path / "ranges")],
            capture_output=True,
            text=True,
            check=True,
        )
    found = [int(line) for line in ended.stdout.split()]
    assert found == [row["sequence"] for row in expected if row["subject"] == "mail"]


def test_batches_come_one_by_one_and_again(folder: Path, expected: list[oracle.Row]) -> None:
    with delaymq.snapshot(folder) as snapshot:
        rows = snapshot.to_arrow_batches("message", columns=["sequence"])
        for _ in range(2):
            assert sum(len(batch) for batch in rows) == len(expected)
            assert oracle.table_of(rows).num_rows == len(expected)


def test_large_tables_come_in_batches_that_fit_memory(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os") as store:
        for _ in range(5):
            store.publish_many("many", [b"x"] * 6_000, 3_600)
        store.publish_many("large", [bytes(1 << 20)] * 20, 3_600)
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        sizes = [len(batch) for batch in snapshot.to_arrow_batches("message")]
    assert sizes[:3] == [10_000] * 3
    assert sizes[3:] == [8, 8, 4]


def test_an_empty_store_and_one_record(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with delaymq.open(folder):
        pass
    with delaymq.snapshot(folder) as snapshot:
        table = oracle.table_of(snapshot.to_arrow_batches("message"))
        assert (table.num_rows, len(table.column_names)) == (0, len(tables.columns_of("message")))
    with delaymq.open(folder) as store:
        receipt = store.publish("one", b"1", delay=60)
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("message"))
        assert rows == oracle.messages(folder)
        assert [(row["sequence"], row["body"]) for row in rows] == [(receipt.sequence, b"1")]


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_a_store_that_a_process_is_writing_to(tmp_path: Path, durability: str) -> None:
    folder = tmp_path / "store"
    process = stores.writing(folder, 1_000, durability)
    try:
        ends = []
        for _ in range(10):
            with delaymq.snapshot(folder) as snapshot:
                rows = oracle.read(snapshot.to_arrow_batches("message"))
                assert rows == oracle.messages(folder, snapshot.first_sequence, snapshot.end_sequence)
                assert rows
                assert oracle.read(snapshot.to_arrow_batches("message")) == rows
                ends.append(snapshot.end_sequence)
        assert ends == sorted(ends)
    finally:
        process.kill()
        process.communicate()
    with delaymq.snapshot(folder) as snapshot:
        assert oracle.read(snapshot.to_arrow_batches("message")) == oracle.messages(folder, snapshot.first_sequence)
        assert snapshot.end_sequence >= ends[-1]
    with delaymq.open(folder), delaymq.snapshot(folder) as snapshot:
        assert oracle.read(snapshot.to_arrow_batches("message")) == oracle.messages(folder, snapshot.first_sequence)
