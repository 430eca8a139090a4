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
    ended = command("spark", *words, given=b"", seconds=100, **changed)
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
