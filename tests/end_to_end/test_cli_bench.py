"""`delaymq bench` as a person sees it: on a pseudo-terminal, and piped."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from commanding import arguments_of, command, environment, on_terminal
from delaymq.bench import BENCHES
from delaymq.bench.cases import changes
from delaymq.bench.cases.backlog import disk_bytes
from delaymq.bench.row import Case, Row, summary
from delaymq.bench.rust import together
from delaymq.bench.served import served
from delaymq.cli.failures import UsageError
from delaymq.cli.verbs import bench as cli_bench
from end_to_end.test_command import BENCH_TIMEOUT, rows_of

SCALED_ALONE = "--scale is for lateness, restart, listing, forecast, changes, room, burst, hour, backlog, replay alone"

ROW = re.compile(r"wheel +pending 200,000 +none +([0-9.,]+) +([0-9.,]+) +ns +[0-9,]+% *(.*)")


def test_a_terminal_gets_a_table_with_bars_in_colour() -> None:
    with on_terminal("bench", "wheel", "--quick", COLUMNS="140", PYTHONIOENCODING="utf-8") as terminal:
        assert terminal.end(60) == 0
    head, row = terminal.shown.decode().splitlines()
    assert head.startswith("\x1b[1mbench")
    assert "\x1b[32m█" in row
    found = ROW.fullmatch(re.sub(r"\x1b\[[0-9]*m", "", row))
    assert found
    assert set(found[3]) <= set("▏▎▍▌▋▊▉█·")


def test_a_terminal_that_asks_for_no_colour_gets_none() -> None:
    changed = {"COLUMNS": "60", "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    with on_terminal("bench", "wheel", "--quick", **changed) as terminal:
        assert terminal.end(60) == 0
    assert terminal.shown.isascii()
    assert b"\x1b" not in terminal.shown
    lines = terminal.shown.decode().splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 60
    assert re.fullmatch(r" +[0-9.,]+ +[0-9.,]+ +ns +[0-9,]+%  [#.]+", lines[3])


def test_a_pipe_gets_rows_without_escape_codes() -> None:
    ended = command("bench", "wheel", "--quick", PYTHONIOENCODING="utf-8")
    assert ended.returncode == 0
    head, row = ended.stdout.splitlines()
    assert head.startswith("bench ")
    assert ROW.fullmatch(row)
    assert "\x1b" not in ended.stdout


def test_a_row_is_printed_as_soon_as_it_is_measured(tmp_path: Path) -> None:
    whole = arguments_of("bench", "wheel", "asyncio", "--quick", "--folder", str(tmp_path))
    buffered = environment(COLUMNS="140", PYTHONIOENCODING="utf-8", PYTHONUNBUFFERED="")
    with subprocess.Popen(whole, stdout=subprocess.PIPE, env=buffered) as process:
        assert process.stdout
        process.stdout.readline()
        wheel = process.stdout.readline().decode()
        process.kill()
        rest = process.stdout.read()
    assert ROW.fullmatch(wheel.rstrip("\n"))
    assert rest == b""  # those of asyncio would have come in the same piece


def test_json_has_no_table_about_it() -> None:
    [line] = command("bench", "wheel", "--quick", "--json").stdout.splitlines()
    assert list(json.loads(line)) == ["bench", "unit", "value", "limit", "ratio", "durability", "n", "detail"]


@BENCH_TIMEOUT
def test_many_subjects_and_a_backlog_tell_what_they_take_of_memory(tmp_path: Path) -> None:
    one_subject, subjects, together, backlog, large = rows_of("subjects", "backlog", folder=tmp_path)
    assert one_subject["detail"]["subjects"] == 1
    assert (subjects["bench"], subjects["n"], subjects["durability"]) == ("subjects", 50_000, "disk")
    assert (subjects["detail"]["subjects"], subjects["detail"]["batch"]) == (1000, 1000)
    assert 0 < subjects["detail"]["bytes_per_subject"] < 100_000
    assert subjects["detail"]["messages_per_pull"] >= 1
    assert subjects["detail"]["threads_added"] == 0
    assert subjects["detail"]["files_added"] < 20  # segments that are being prepared meanwhile
    assert (backlog["bench"], backlog["n"], backlog["durability"]) == ("backlog", 100_000, "disk")
    assert (large["bench"], large["n"], large["detail"]["body_bytes"]) == ("backlog", 20_000, 1_024)
    told = {"unpulled_bytes", "filling_bytes", "memory_growth_bytes", "of_one_consumer_per_s"}
    assert told <= backlog["detail"].keys() == large["detail"].keys()
    one = together["detail"]
    assert (together["bench"], one["subjects"], one["call"]) == ("subjects", 1000, "together")
    assert one["messages_per_pull"] > one["apart_messages_per_pull"] >= 1
    assert one["apart_per_s"] > 0


def test_a_backlog_has_as_many_messages_as_are_asked_for(tmp_path: Path) -> None:
    asked = ("bench", "backlog", "--quick", "--scale", "30000", "--json", "--folder", str(tmp_path))
    row = json.loads(command(*asked).stdout)
    assert (row["n"], row["detail"]["ready"]) == (30_000, 30_000)
    assert 0 < row["detail"]["disk_bytes"] <= disk_bytes(30_000)
    assert list(tmp_path.iterdir()) == []


def test_messages_are_read_again_beside_a_backlog_of_as_many(tmp_path: Path) -> None:
    asked = ("bench", "replay", "--quick", "--scale", "30000", "--json", "--folder", str(tmp_path))
    rows = [json.loads(line) for line in command(*asked).stdout.splitlines()]
    assert [row["detail"]["delay_ms_max"] for row in rows] == [0, 4_000]
    for row in rows:
        assert (row["bench"], row["n"], row["durability"]) == ("replay", 30_000, "disk")
        assert row["value"] > 0 < row["limit"]
        assert row["detail"]["start_ms"] > 0 < row["detail"]["start_at_time_ms"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("wheel", "--scale", "5"), SCALED_ALONE),
        (("--scale", "5"), SCALED_ALONE),
        (("backlog", "--scale", "0"), "'0' is not a number from 1 to"),
        (("backlog", "--scale", "1e6"), "'1e6' is not a number from 1 to"),
    ],
)
def test_a_number_of_messages_that_cannot_be_is_refused(given: tuple[str, ...], words: str) -> None:
    refused = command("bench", *given)
    assert refused.returncode == 2
    assert words in refused.stderr


def asked_for(name: str, **changed: object) -> argparse.Namespace:
    given = {"quick": False, "server": False, "scale": None, "folder": None, "json": True, "must": False}
    return argparse.Namespace(names=[name], **{**given, **changed})


def measured(cases: Iterable[Case], **_: object) -> Iterator[Row]:
    """As if half a million entries a second were listed, and half a millisecond taken for everything."""
    for case in cases:
        figures = {mark.figure: 0.5 for mark in case.must}
        yield summary(case, [{**figures, "value": 5e5}], [{"value": 1.0}], {})


@pytest.mark.parametrize(
    ("name", "must", "code"), [("listing", True, 1), ("listing", False, 0), ("changes", True, 0), ("forecast", True, 0)]
)
def test_a_missed_mark_is_told_and_ends_with_one_only_where_that_is_asked_for(
    name: str, must: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_bench, "run_benches", measured)
    assert cli_bench.run(asked_for(name, must=must, json=False)) == code
    told = [line for line in capsys.readouterr().out.splitlines() if "must: " in line]
    expected = {
        "listing": ["  must: the figure at least 1,000,000: missed, 500,000"],
        "changes": ["  must: the figure at least 100,000: met"] * 4,
        "forecast": [
            "  must: subject_ms at most 50: met",
            "  must: totals_ms at most 1: met",
            "  must: rested_ms at most 50: met",
        ],
    }
    assert told == expected[name]
    assert cli_bench.run(asked_for(name, must=must)) == code
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert {one["met"] for row in rows for one in row["detail"].get("must", [])} == {name != "listing"}


@pytest.mark.parametrize("given", [("wheel", "--must"), ("restart", "--quick", "--must")])
def test_marks_are_not_asked_for_where_there_are_none(given: tuple[str, ...]) -> None:
    refused = command("bench", *given)
    assert refused.returncode == 2
    assert "--must: nothing is asked of" in refused.stderr


@BENCH_TIMEOUT
def test_a_list_runs_beside_deliveries(tmp_path: Path) -> None:
    rows = rows_of("lateness", folder=tmp_path)
    [slow, fast] = [row["detail"] for row in rows if row["detail"].get("beside") == "listing"]
    assert [slow["rate_per_s"], fast["rate_per_s"]] == [1000, 20_000]
    for detail in (slow, fast):
        assert detail["listed_per_s"] > 0 < detail["alone_p99_ms"]
        assert {"alone_p50_ms", "p50_ms", "p99_ms", "limit_p50_ms"} <= detail.keys()


def test_a_backlog_that_the_disk_has_no_room_for_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    free = disk_bytes(1_000) - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(cli_bench, "run_benches", lambda *_, **__: pytest.fail("it was begun"))
    with pytest.raises(UsageError, match=f"of which {free} are free"):
        cli_bench.run(asked_for("backlog", quick=True, scale=1_000))


def test_reading_again_needs_the_room_of_two_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    free = changes.disk_bytes(1_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(cli_bench, "run_benches", lambda *_, **__: ())
    cli_bench.run(asked_for("backlog", quick=True, scale=1_000))
    with pytest.raises(UsageError, match=f"need {2 * free} bytes on the disk, of which {free} are free"):
        cli_bench.run(asked_for("replay", quick=True, scale=1_000))


def test_the_help_lists_every_bench_and_another_name_is_refused() -> None:
    shown = " ".join(command("bench", "--help").stdout.split())
    assert f"out of {', '.join(BENCHES)}; all if none" in shown
    assert "asyncio" in BENCHES
    refused = command("bench", "speed")
    assert refused.returncode == 2
    assert "'speed' is not one of append" in refused.stderr


def test_with_server_only_what_goes_through_one_is_measured() -> None:
    [line] = command("bench", "lateness", "--server", "--quick", "--json").stdout.splitlines()
    assert json.loads(line)["detail"]["over"] == "tcp"
    refused = command("bench", "append", "wheel", "--server")
    assert refused.returncode == 2
    assert "none of append, wheel goes through a server" in refused.stderr


def test_processes_that_measure_together_end_together(tmp_path: Path) -> None:
    consuming = {"port": 1, "messages": 1}
    waiting = dict.fromkeys(("messages", "requests", "frame_bytes", "answer_bytes", "in_flight", "connections"), 1)
    waiting["meets"] = 1
    with pytest.raises(RuntimeError, match="consuming did not end well"):
        together(tmp_path, {"consuming": consuming, "producing_limit": waiting})


def test_a_server_that_does_not_start_is_said(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(RuntimeError, match="did not start"), served(tmp_path / "store", "disk"):
        pass


def test_a_server_that_dies_is_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with -9"), served(tmp_path / "store", "disk") as server:
        os.kill(server.pid, signal.SIGKILL)
