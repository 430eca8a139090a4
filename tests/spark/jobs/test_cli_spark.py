"""`delaymq spark`, run as a user does: in a Java of its own, and, where that makes no difference, by Spark Connect."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pyarrow.parquet
import pytest

import delaymq
from commanding import command
from crafting import flip
from end_to_end.test_cli_json import promised, shape
from java import quick_java, require_java_here
from spark.jobs import planting

MESSAGES = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spark") / "store"
    with delaymq.open(path, durability="os") as store:
        for number in range(MESSAGES):
            store.publish(("order", "mail")[number % 3 == 0], b"body %03d" % number, delay=600 + 60 * (number % 7))
    return path


def spark(*words: str, code: int = 0, **changed: str) -> subprocess.CompletedProcess[str]:
    changed = quick_java(changed)
    ended = command("spark", *words, given=b"", seconds=250, **changed)
    assert ended.returncode == code, ended.stderr
    return ended


def test_a_forecast_is_drawn_and_written(folder: Path, tmp_path: Path) -> None:
    require_java_here()
    html, parquet = tmp_path / "due.html", tmp_path / "due"
    place = ("--store", str(folder))
    ended = spark("forecast", *place, "--html", str(html), "--parquet", str(parquet), "--master", "local[2]")
    assert ended.stderr == ""
    assert ended.stdout.startswith(f"{MESSAGES} messages, ")
    subjects = [line.split() for line in ended.stdout.partition("\n\n")[2].splitlines()]
    assert subjects == [["subject", "messages", "bytes"], ["order", "80", "640", "B"], ["mail", "40", "320", "B"]]
    assert "<h1>Due in " in html.read_text("utf-8")
    written = pyarrow.parquet.read_table(parquet)
    assert sum(written.column("messages").to_pylist()) == MESSAGES
    assert list((folder / "pins").iterdir()) == [], "nothing is kept behind it"
    assert "is there already" in spark("forecast", *place, "--parquet", str(parquet), code=2).stderr


def test_each_minute_and_subject_is_what_the_store_forecasts(folder: Path, connected: str) -> None:
    ended = spark("forecast", "--store", str(folder), "--subject", "mail", "--json", "--master", connected)
    assert ended.stderr == ""
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    with delaymq.open(folder) as store:
        expected = [(slot.start, "mail", slot.messages, slot.bytes) for slot in store.forecast("mail").slots]
    told = [(datetime.fromisoformat(one["minute"]), one["subject"], one["messages"], one["bytes"]) for one in found]
    assert told == expected != []
    assert {shape(one) for one in found} == {promised()["spark forecast --json"]}


def test_a_snapshot_that_is_kept_is_what_is_told_of(folder: Path, tmp_path: Path, connected: str) -> None:
    path = shutil.copytree(folder, tmp_path / "store")
    place = ("--store", str(path), "--master", connected)
    with delaymq.snapshot(path) as snapshot:
        then = ("--snapshot", snapshot.name, *place)
        with delaymq.open(path) as store:
            store.cancel_many(store.publish_many("late", [b""] * 3, 3600))
            store.publish_many("mail", [b""] * 5, 3600)
        forecast = [json.loads(line) for line in spark("forecast", "--json", *then).stdout.splitlines()]
        assert sum(one["messages"] for one in forecast) == MESSAGES
        ends = [json.loads(spark("audit", "--json", *words).stdout)["end_sequence"] for words in (then, place)]
        assert ends[0] == snapshot.end_sequence < ends[1]
        archive = ("--parquet", str(tmp_path / "archive"), "--json")
        assert json.loads(spark("archive", *archive, *then).stdout)["end_sequence"] == snapshot.end_sequence
        assert json.loads(spark("archive", *archive, *place).stdout)["outcomes"] == {"cancelled": 3}
        assert "not older than the archive" in spark("archive", *archive, *then, code=2).stderr
    for verb in ("forecast", "audit", "archive"):
        words = ("--parquet", str(tmp_path / "none")) if verb == "archive" else ()
        assert "snapshot" in spark(verb, *words, "--snapshot", "newest", *place, code=2).stderr


def test_an_audit_says_what_is_wrong_and_ends_with_1(tmp_path: Path, connected: str) -> None:
    path = planting.waiting(tmp_path / "store")
    clean = spark("audit", "--store", str(path), "--master", connected)
    assert clean.stdout.startswith(f"{planting.MESSAGES} messages, sequences 1 to ")
    assert "lost     0\n" in clean.stdout
    lost, doubled = planting.lose_and_double(path)
    early = planting.hasten(path)
    damaged = planting.corrupt(path)
    told = spark("audit", "--store", str(path), "--master", connected, "--rows", "3", code=1)
    assert (told.stderr, told.stdout.splitlines()[-1]) == ("", "and 1 more")
    words = ("--json", "--parquet", str(tmp_path / "findings"), "--stuck-after", "1d")
    [line] = spark("audit", "--store", str(path), "--master", connected, *words, code=1).stdout.splitlines()
    found = json.loads(line)
    assert shape(found) == promised()["spark audit --json"]
    assert {shape(one) for one in found["findings"]} == {promised()["findings of spark audit"]}
    assert found["found"] == {"lost": 1, "doubled": 1, "early": 1, "corrupt": 1, "stuck": 0}
    written = pyarrow.parquet.read_table(tmp_path / "findings").sort_by("kind").to_pylist()
    assert [(one["kind"], one["sequence"]) for one in written if one["kind"] != "corrupt"] == [
        ("doubled", doubled),
        ("early", early),
        ("lost", lost),
    ]
    assert damaged in next(one["words"] for one in written if one["kind"] == "corrupt")


def test_what_ends_is_archived(tmp_path: Path, connected: str) -> None:
    path, archive = tmp_path / "store", tmp_path / "archive"
    with delaymq.open(path, durability="os") as store:
        receipts = store.publish_many("order", [b"%d" % number for number in range(5)], 600)
        store.cancel_many(receipts[:3])
    place = ("--store", str(path), "--parquet", str(archive), "--master", connected)
    told = spark("archive", *place, "--before-retire")
    assert told.stdout.startswith(f"3 rows in run 1 of {archive}\nall that ended until ")
    assert told.stdout.splitlines()[-1].split() == ["cancelled", "3"]
    assert len(list((path / "pins").glob("archived-*"))) == 1
    [line] = spark("archive", *place, "--json").stdout.splitlines()
    found = json.loads(line)
    assert shape(found) == promised()["spark archive --json"]
    assert (found["run"], found["is_new"]) == (1, False)
    assert list((path / "pins").iterdir()) == []
    assert spark("archive", *place).stdout.startswith("nothing is new since run 1")


def test_what_is_damaged_is_told_in_one_line_with_its_code(folder: Path, tmp_path: Path, connected: str) -> None:
    damaged = tmp_path / "store"
    shutil.copytree(folder, damaged)
    [segment] = [one for one in (damaged / "log").iterdir() if b"body 017" in one.read_bytes()]
    flip(segment, segment.read_bytes().index(b"body 017"))
    ended = spark("forecast", "--store", str(damaged), "--master", connected, code=4)
    [line] = ended.stderr.splitlines()
    assert line.startswith("delaymq: ")
    assert segment.name in line


def test_what_is_not_there_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    assert "there is no store here" in spark("forecast", "--store", str(tmp_path), code=4).stderr
    told = spark("forecast", "--store", str(folder), code=3, PATH="/nowhere", JAVA_HOME="")
    assert told.stderr == "delaymq: no java was found: Spark needs Java 17 or later, on the PATH or by JAVA_HOME\n"
