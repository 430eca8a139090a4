"""Files of messages loaded into stores: by the function, and by `delaymq spark load` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import delaymq
from commanding import command
from delaymq import InvalidArgument
from delaymq.errors import MissingFile
from delaymq.loading import StagedRun
from delaymq.spark.destination import Destination
from delaymq.spark.jobs import StoreLoad, load, rows_of
from end_to_end.test_cli_json import promised, shape
from java import quick_java
from serving import Served

DUE = datetime(2035, 1, 1, tzinfo=UTC)
ROWS = 200


def rows(count: int = ROWS) -> list[dict[str, Any]]:
    return [
        {"subject": "orders", "due": DUE + timedelta(seconds=number), "body": str(number), "message_id": f"m-{number}"}
        for number in range(count)
    ]


def parquet(path: Path, found: list[dict[str, Any]]) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(found), path)
    return path


def lines(path: Path, found: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in found), "utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    delaymq.open(tmp_path / "store").close()
    return tmp_path / "store"


def pending(folder: Path, *more: str) -> list[dict[str, Any]]:
    with delaymq.snapshot(folder) as snapshot:
        found = snapshot.to_arrow_batches("pending", columns=("subject", "due", "body", "message_id", *more))
        return sorted(pyarrow.table(found).to_pylist(), key=lambda row: (row["due"], row["body"]))


def expected(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "body": row["body"].encode()} for row in found]


def test_parquet_goes_into_one_store(spark: Any, folder: Path, tmp_path: Path) -> None:
    files = [parquet(tmp_path / "a.parquet", rows()[:80]), parquet(tmp_path / "b.parquet", rows()[80:])]
    into = [Destination(path=str(folder))]
    found = rows_of(spark, [str(file) for file in files], "parquet")
    done = load(found, into, job="job")
    [one] = done.stores
    assert (done.job, done.rows, done.bad_rows) == ("job", ROWS, 0)
    assert (one.path, one.messages, one.again) == (str(folder), ROWS, False)
    assert pending(folder) == expected(rows())
    assert load(found, into, job="job").stores == (StoreLoad(one.path, ROWS, one.first_sequence, again=True),)
    assert pending(folder) == expected(rows())


def test_json_lines_have_tags_and_attributes(spark: Any, folder: Path, tmp_path: Path) -> None:
    more = {"tags": ["a", "b"], "attributes": {"tenant": "7", "shop": "ü"}}
    plain = [{**row, **(more if number % 2 else {})} for number, row in enumerate(rows(10))]
    file = lines(tmp_path / "due.jsonl", plain)
    done = load(rows_of(spark, [str(file)], "json"), [Destination(path=str(folder))], job="job")
    assert done.rows == 10
    found = pending(folder, "tags", "attributes")
    assert [row["message_id"] for row in found] == [f"m-{number}" for number in range(10)]
    assert [row["due"] for row in found] == [row["due"] for row in rows(10)]
    assert json.loads(found[1]["tags"]) == ["a", "b"]
    assert json.loads(found[1]["attributes"]) == more["attributes"]
    assert [row["tags"] for row in found[::2]] == [found[0]["tags"]] * 5


def test_csv_is_text_with_names_in_its_first_line(spark: Any, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "due.csv"
    file.write_text(
        "subject,due,body,tags\n"
        "orders,2035-01-01T00:00:00Z,plain,\n"
        'orders,2035-01-01T01:00:01+01:00,"with, comma and ""quotes""\nand a line","[""a""]"\n',
        "utf-8",
    )
    load(rows_of(spark, [str(file)], "csv"), [Destination(path=str(folder))], job="job")
    found = pending(folder, "tags")
    assert [row["body"] for row in found] == [b"plain", b'with, comma and "quotes"\nand a line']
    assert [row["due"] for row in found] == [DUE, DUE + timedelta(seconds=1)]
    assert json.loads(found[1]["tags"]) == ["a"]


def test_lines_that_cannot_be_read_are_rows_that_are_no_messages(spark: Any, folder: Path, tmp_path: Path) -> None:
    file = lines(tmp_path / "due.jsonl", rows(5))
    with file.open("a") as more:
        more.write('{"subject": "orders", "due": \n')
        more.write('{"subject": "orders", "due": "2035-01-01T00:00:00", "body": "naive"}\n')
    found, into = rows_of(spark, [str(file)], "json"), [Destination(path=str(folder))]
    with pytest.raises(Exception, match="row 5 of task 0: _corrupt_record"):
        load(found, into, job="job")
    assert pending(folder) == []
    done = load(found, into, job="job", bad_rows=str(tmp_path / "bad"))
    assert (done.rows, done.bad_rows, done.stores[0].messages) == (7, 2, 5)
    broken, naive = pyarrow.parquet.read_table(tmp_path / "bad").sort_by("bad_row").to_pylist()
    assert (broken["bad_column"], broken["_corrupt_record"]) == ("_corrupt_record", '{"subject": "orders", "due": ')
    assert (naive["bad_column"], naive["body"]) == ("due", "naive")


def test_columns_that_messages_do_not_have_are_refused_unless_told_otherwise(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    file = parquet(tmp_path / "a.parquet", [{**row, "sequence": 5} for row in rows(3)])
    found, into = rows_of(spark, [str(file)], "parquet"), [Destination(path=str(folder))]
    with pytest.raises(InvalidArgument, match="sequence"):
        load(found, into, job="job")
    assert load(found, into, job="job", ignore_others=True).stores[0].messages == 3


def stores(tmp_path: Path, count: int = 3) -> list[Destination]:
    for number in range(count):
        delaymq.open(tmp_path / f"store{number}").close()
    return [Destination(path=str(tmp_path / f"store{number}")) for number in range(count)]


def test_each_row_goes_to_one_of_several_stores(spark: Any, tmp_path: Path) -> None:
    into = stores(tmp_path)
    file = parquet(tmp_path / "a.parquet", rows())
    found = rows_of(spark, [str(file)], "parquet").repartition(4)
    done = load(found, into, job="job")
    parts = [pending(Path(one.path)) for one in into]
    assert min(len(part) for part in parts) > ROWS // 10
    assert sorted((row for part in parts for row in part), key=lambda row: row["due"]) == expected(rows())
    assert [one.messages for one in done.stores] == [len(part) for part in parts]
    again = load(found, into, job="job")
    assert [one.again for one in again.stores] == [True] * 3
    assert [pending(Path(one.path)) for one in into] == parts
    with pytest.raises(InvalidArgument, match="nothing"):
        load(found, into, job="by", by=["nothing"])
    by_subject = load(found, into, job="by", by=["subject"])
    assert sorted(one.messages for one in by_subject.stores) == [0, 0, ROWS]
    assert [one.first_sequence is None for one in by_subject.stores].count(True) == 2


def test_what_stopped_between_two_stores_goes_on(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = stores(tmp_path)
    found = rows_of(spark, [str(parquet(tmp_path / "a.parquet", rows()))], "parquet")
    whole = Destination.load_new

    def once(self: Destination, job: str, runs: list[StagedRun]) -> Any:
        if self == into[1]:
            raise MissingFile("planned")
        return whole(self, job, runs)

    with monkeypatch.context() as patch:
        patch.setattr(Destination, "load_new", once)
        with pytest.raises(MissingFile, match="planned"):
            load(found, into, job="job")
    assert [len(pending(Path(one.path))) > 0 for one in into] == [True, False, False]
    assert list((Path(into[2].path) / "loads").iterdir()) == []
    done = load(found, into, job="job")
    assert [one.again for one in done.stores] == [True, False, False]
    assert sum(len(pending(Path(one.path))) for one in into) == ROWS


def spark_load(*words: str, code: int = 0, **changed: str) -> subprocess.CompletedProcess[str]:
    ended = command("spark", "load", *words, given=b"", seconds=250, **quick_java(changed))
    assert ended.returncode == code, ended.stderr
    return ended


def test_the_verb_loads_into_a_server_and_tells(tmp_path: Path, connected: str) -> None:
    file = lines(tmp_path / "due.jsonl", rows(5))
    with Served(tmp_path / "store") as served:
        place = ("--store", str(served.folder), "--server", served.url, "--master", connected, "--job", "job")
        told = spark_load(str(file), *place, "--parquet", str(tmp_path / "stores"))
        assert told.stderr == ""
        assert told.stdout.startswith("5 messages of 5 rows, job job\n")
        [written] = pyarrow.parquet.read_table(tmp_path / "stores").to_pylist()
        first = str(written.pop("first_sequence"))
        assert written == {"job": "job", "path": str(served.folder), "messages": 5, "again": False}
        assert told.stdout.splitlines()[-1].split() == [str(served.folder), "5", first, "now"]
        assert "is there already" in spark_load(str(file), *place, "--parquet", str(tmp_path / "stores"), code=2).stderr
        [line] = spark_load(str(file), *place, "--json", "--timeout", "1m").stdout.splitlines()
        found = json.loads(line)
        assert shape(found) == promised()["spark load --json"]
        assert [shape(one) for one in found["stores"]] == [promised()["stores of spark load"]]
        assert (found["stores"][0]["messages"], found["stores"][0]["again"]) == (5, True)
        assert "where a server has it open" in spark_load(*[str(file), *place[:2], *place[4:]], code=5).stderr


def test_the_verb_ends_with_7_where_rows_were_put_aside(folder: Path, tmp_path: Path, connected: str) -> None:
    file = parquet(tmp_path / "due.parquet", [*rows(5), {**rows(1)[0], "subject": "a/b"}])
    place = ("--store", str(folder), "--master", connected, "--job", "job")
    [line] = spark_load(str(file), *place, code=2).stderr.splitlines()
    assert line.startswith("delaymq: row ")
    assert "subject" in line
    told = spark_load(str(file), *place, "--bad-rows", str(tmp_path / "bad"), code=7)
    assert f"1 row is no message: {tmp_path / 'bad'}" in told.stdout
    assert len(pyarrow.parquet.read_table(tmp_path / "bad")) == 1
    assert len(pending(folder)) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("due.txt",), "say --format"),
        (("a.csv", "b.json"), "files of several formats"),
        (("a.csv", "--server", "delaymq://127.0.0.1:1", "--server", "delaymq://127.0.0.1:2"), "--server: 2 for 1"),
        (("a.csv.gz", "--by", "subject"), "--by"),
        (("a.csv", "--timeout", "1m"), "--timeout"),
        (("a.csv", "--token-file", "t"), "--token-file"),
    ],
)
def test_what_cannot_be_asked_is_told_at_once(folder: Path, words: tuple[str, ...], said: str) -> None:
    assert said in spark_load(*words, "--job", "job", "--store", str(folder), code=2).stderr


def test_places_that_cannot_be_are_told_at_once(folder: Path, tmp_path: Path) -> None:
    job = ("a.csv", "--job", "job")
    assert "no store" in spark_load(*job, code=2).stderr
    assert "given twice" in spark_load(*job, "--store", str(folder), "--store", str(folder), code=2).stderr
    assert "there is no store here" in spark_load(*job, "--store", str(tmp_path), code=4).stderr
    told = spark_load(*job, "--store", str(folder), code=3, PATH="/nowhere", JAVA_HOME="")
    assert told.stderr == "delaymq: no java was found: Spark needs Java 17 or later, on the PATH or by JAVA_HOME\n"
