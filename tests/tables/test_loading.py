"""What is staged beside a store is what a table has, read back by the second reader of the format."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow
import pytest

import delaymq
from delaymq import Closed, InvalidArgument, NotAStore, TooLarge, WrongType
from delaymq.loading import StagedRun, Stager, discard, stage
from format_reader.runs import read_run
from tables import oracle, stores

DUE = datetime(2030, 1, 1, tzinfo=UTC)
SCHEMA = pyarrow.schema(
    [("subject", pyarrow.string()), ("due", pyarrow.timestamp("us", tz="UTC")), ("body", pyarrow.binary())]
)
CONTENT = ("subject", "due", "body", "message_id", "tags", "attributes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    delaymq.open(tmp_path / "store").close()
    return tmp_path / "store"


def table(count: int = 3) -> pyarrow.Table:
    rows = [{"subject": "s", "due": DUE - timedelta(seconds=place), "body": b"%d" % place} for place in range(count)]
    return pyarrow.Table.from_pylist(rows, schema=SCHEMA)


def staged_rows(folder: Path, runs: tuple[StagedRun, ...]) -> list[dict[str, Any]]:
    """What a second reader finds in staged runs, checked whole, in their order."""
    found = []
    for named in runs:
        data = (folder / "loads" / named.name).read_bytes()
        assert len(data) == named.bytes
        run = read_run(data)
        assert len(run.rows) == named.rows
        for row in run.rows:
            fields = run.payloads[row["sequence"]].fields
            subject = run.footer["names"][row["subject"] - 1]
            found.append({**fields, "subject": subject, "due": row["due_ms"]})
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "loads").iterdir())


def test_a_table_becomes_runs_sorted_by_due_time(folder: Path) -> None:
    with Stager(folder, run_rows_max=2) as stager:
        for batch in table(5).to_batches(max_chunksize=2):
            assert stager.add(batch) == ()
        runs = stager.finish()
    assert [run.rows for run in runs] == [2, 2, 1]
    rows = staged_rows(folder, runs)
    assert [row["body"] for row in rows] == [b"1", b"0", b"3", b"2", b"4"]
    assert {row["subject"] for row in rows} == {"s"}
    assert rows[1]["due"] == round(DUE.timestamp() * 1000)
    assert names_in(folder) == sorted(run.name for run in runs)


def test_runs_can_be_handed_to_other_processes(folder: Path) -> None:
    runs = stage(folder, table())
    assert pickle.loads(pickle.dumps(runs)) == runs
    assert tuple(StagedRun(**fields) for fields in json.loads(json.dumps([asdict(run) for run in runs]))) == runs


@pytest.mark.parametrize("of", ["pyarrow", "reader", "polars", "duckdb", "pandas"])
def test_whatever_has_arrow_s_interface_is_taken(folder: Path, of: str) -> None:
    data: Any = table()
    if of == "reader":
        data = pyarrow.RecordBatchReader.from_batches(SCHEMA, iter(data.to_batches()))
    elif of == "polars":
        data = polars.DataFrame(data)
    elif of == "pandas":
        data = data.to_pandas()
    elif of == "duckdb":
        # DuckDB names no zone of its own where none is set.
        asked = "select 's' as subject, timestamptz '2030-01-01 00:00:00+00' - to_seconds(i) as due, i::varchar as body"
        data = duckdb.sql(f"{asked} from range(3) as t(i)")
    assert [row["body"] for row in staged_rows(folder, stage(folder, data))] == [b"2", b"1", b"0"]


def test_a_part_of_a_table_is_that_part(folder: Path) -> None:
    more = [("tags", pyarrow.list_(pyarrow.string())), ("attributes", pyarrow.map_(pyarrow.string(), pyarrow.binary()))]
    rows = [
        {
            "subject": "s",
            "due": DUE,
            "body": b"%d" % place,
            "tags": ["t", str(place)],
            "attributes": {"k": b"%d" % place},
        }
        for place in range(9)
    ]
    whole = pyarrow.Table.from_pylist(rows, schema=pyarrow.schema([*SCHEMA, *(pyarrow.field(*one) for one in more)]))
    for part in (whole.slice(4, 2), whole.to_batches()[0].slice(4, 2)):
        found = staged_rows(folder, stage(folder, part))
        assert [row["body"] for row in found] == [b"4", b"5"]
        assert [list(row["tags"]) for row in found] == [["t", "4"], ["t", "5"]]
        assert [dict(row["attributes"]) for row in found] == [{"k": b"4"}, {"k": b"5"}]


def test_what_cannot_be_rows_of_messages_is_refused(folder: Path) -> None:
    broken = pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, pyarrow.py_buffer(b"\0\0\0\0\2\0\0\0"), pyarrow.py_buffer(b"\xff\xff")]
    )
    one = table(1)
    subject = SCHEMA.get_field_index("subject")
    rows = pyarrow.StructArray.from_arrays([pyarrow.array(["a"])], ["subject"], mask=pyarrow.array([True]))
    for data, words in (
        (one.set_column(subject, "subject", broken), "UTF"),
        (one.set_column(subject, "subject", pyarrow.array(["a"]).dictionary_encode()), "Dictionary"),
        (one.rename_columns(["Subject", "due", "body"]).slice(0, 0), "Subject"),
        (pyarrow.table({}), "a column subject"),
        (pyarrow.array([1]), "Int64"),
        (rows, "null in place of a row"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            stage(folder, data)
    assert stage(folder, table(0)) == ()
    assert names_in(folder) == []


def test_loaded_messages_expire_and_the_tables_say_when(folder: Path) -> None:
    due = [datetime(2030, 1, 1, tzinfo=UTC)] * 3
    rows: dict[str, Any] = {
        "subject": ["a", "b", "c"],
        "due": due,
        "body": [b""] * 3,
        "expires": [due[0] + timedelta(seconds=1), None, due[0] + timedelta(milliseconds=1)],
        "on_expiry": ["dead_letter", None, None],
    }
    runs = stage(folder, pyarrow.table(rows))
    with delaymq.open(folder) as store:
        store.load("job", runs)
    expected = [("a", rows["expires"][0], "dead_letter"), ("b", None, None), ("c", rows["expires"][2], "drop")]
    with delaymq.snapshot(folder) as snapshot:
        for table, columns in (("message", ("subject", "expires", "on_expiry")), ("pending", None)):
            told = oracle.plain(snapshot.to_arrow_batches(table, columns=columns))
            assert [(row["subject"], row["expires"], row["on_expiry"]) for row in told] == expected


@pytest.mark.parametrize(
    ("expires", "on_expiry", "argument"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), None, "expires"),
        (datetime(2029, 1, 1, tzinfo=UTC), "drop", "expires"),
        (datetime(2031, 1, 1, tzinfo=UTC), "keep", "on_expiry"),
        (None, "drop", "on_expiry"),
    ],
)
def test_an_expiry_that_no_message_has_is_a_bad_row(
    folder: Path, expires: datetime | None, on_expiry: str | None, argument: str
) -> None:
    one = pyarrow.table({"subject": ["a"], "due": [datetime(2030, 1, 1, tzinfo=UTC)], "body": [b""]})
    one = one.append_column("expires", pyarrow.array([expires], pyarrow.timestamp("us", "UTC")))
    one = one.append_column("on_expiry", pyarrow.array([on_expiry], pyarrow.string()))
    with pytest.raises(InvalidArgument) as refused:
        stage(folder, one)
    assert refused.value.argument == argument


def test_what_a_table_of_a_store_says_can_be_staged_again(tmp_path: Path) -> None:
    source, target = stores.rich(tmp_path / "source"), tmp_path / "target"
    delaymq.open(target).close()
    with delaymq.snapshot(source) as snapshot:
        rows = snapshot.to_arrow_batches("pending", columns=CONTENT)
        expected = oracle.read(rows)
        found = staged_rows(target, stage(target, rows))
        other = snapshot.to_arrow_batches("pending")
        with pytest.raises(InvalidArgument, match="sequence"):
            stage(target, other)
        assert len(staged_rows(target, stage(target, other, ignore_others=True))) == len(expected)
    assert len(found) > 100
    for one, row in zip(expected, found, strict=True):
        assert (one["subject"], one["body"], one["message_id"] or "") == (
            row["subject"],
            row["body"],
            row["message_id"],
        )
        assert round(one["due"].timestamp() * 1000) == row["due"]
        assert one["tags"] == list(row["tags"])
        attributes = {key: value.encode(errors="surrogateescape") for key, value in one["attributes"].items()}
        assert attributes == dict(row["attributes"])


def bad(column: str, value: object, kind: pyarrow.DataType | None = None) -> pyarrow.Table:
    """Two rows of which the second is no message."""
    whole = table(2)
    place = whole.schema.get_field_index(column)
    field = whole.schema.field(place) if kind is None else pyarrow.field(column, kind)
    values = [DUE.replace(tzinfo=None) if kind is not None else whole.column(place)[0].as_py(), value]
    return whole.set_column(place, field, [pyarrow.array(values, field.type)])


NAIVE = pyarrow.timestamp("us")
BAD = {
    "null due": (bad("due", None), "due", 1),
    "naive due": (bad("due", DUE.replace(tzinfo=None), NAIVE), "due", 0),
    "before 1970": (bad("due", datetime(1969, 12, 31, tzinfo=UTC)), "due", 1),
    "out of range": (bad("due", datetime.now(UTC) + timedelta(days=3_654)), "due", 1),
    "illegal subject": (bad("subject", "a/b"), "subject", 1),
    "null subject": (bad("subject", None), "subject", 1),
    "oversize": (bad("body", bytes((4 << 20) + 1)), "body", 1),
    "null body": (bad("body", None), "body", 1),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_row_that_is_no_message_is_named_and_nothing_is_staged(folder: Path, kind: str) -> None:
    data, column, place = BAD[kind]
    stager = Stager(folder, run_rows_max=1)
    stager.add(table(4))
    assert len(names_in(folder)) == 3
    with pytest.raises(InvalidArgument, match=f"^row {4 + place}: {column}") as raised:
        stager.add(data)
    assert (raised.value.argument, raised.value.index) == (column, 4 + place)
    assert isinstance(raised.value, TooLarge) == (kind == "oversize")
    assert names_in(folder) == []
    with pytest.raises(Closed):
        stager.finish()


@pytest.mark.parametrize("kind", BAD)
def test_a_row_that_is_no_message_is_told_where_that_is_asked(folder: Path, kind: str) -> None:
    data, column, place = BAD[kind]
    with Stager(folder, on_bad_row="collect") as stager:
        assert stager.add(table(4)) == ()
        found = stager.add(data)
        assert (found[0].row, found[0].place, found[0].column) == (4 + place, place, column)
        assert (found[0].limit == 4 << 20) == (kind == "oversize")
        assert stager.rows == 6
        assert len(staged_rows(folder, stager.finish())) == 6 - len(found)


def test_a_reader_that_fails_ends_the_staging(folder: Path) -> None:
    def batches() -> Iterator[pyarrow.RecordBatch]:
        yield from table().to_batches()
        raise ValueError("the source is gone")

    stager = Stager(folder, run_rows_max=1)
    with pytest.raises(InvalidArgument, match="the source is gone"):
        stager.add(pyarrow.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert names_in(folder) == []


def test_what_is_discarded_leaves_no_file(folder: Path) -> None:
    with Stager(folder, run_rows_max=1) as stager:
        stager.add(table())
        assert len(names_in(folder)) == 2
    assert names_in(folder) == []
    runs = stage(folder, table())
    discard(folder, runs)
    discard(folder, runs)
    assert names_in(folder) == []
    with pytest.raises(InvalidArgument):
        discard(folder, [StagedRun("../identity", 1, 1, 1)])
    assert (folder / "identity").exists()


def test_what_is_refused_beforehand(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("a stranger")
    with pytest.raises(NotAStore):
        Stager(tmp_path / "other")
    refusals: list[dict[str, Any]] = [
        {"run_rows_max": 0},
        {"run_bytes_max": 1 << 40},
        {"on_bad_row": "skip"},
        {"due_before": DUE.replace(tzinfo=None)},
    ]
    for wrong in refusals:
        with pytest.raises(InvalidArgument):
            Stager(folder, **wrong)
    with pytest.raises(WrongType), Stager(folder) as stager:
        stager.add([{"subject": "s"}])
    with pytest.raises(InvalidArgument, match="columns"):
        stage(folder, pyarrow.table({"subject": ["s"], "body": ["b"]}))
    with pytest.raises(InvalidArgument, match="row 0: due"):
        stage(folder, table(1), due_before=DUE - timedelta(seconds=1))


def test_an_open_store_is_staged_beside_by_many_threads(folder: Path) -> None:
    with delaymq.open(folder) as store, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: stage(folder, table(100)), range(8)))
        store.publish("s", b"meanwhile")
    runs = [run for part in found for run in part]
    assert len({run.name for run in runs}) == 8
    assert names_in(folder) == sorted(run.name for run in runs)
    with delaymq.open(folder):  # what is young stays: it may be adopted yet
        assert names_in(folder) == sorted(run.name for run in runs)
