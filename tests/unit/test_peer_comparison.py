"""`make bench-peers`: without the folder of peers there is nothing to do, with it a table of medians and ratios."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benches" / "python" / "peer_comparison.py"
NAMES = {"delaymq_rows": "delaymq", "delaymq_columns": "delaymq-columns", "redis_zset": "redis-zset"}
RATES = {"delaymq": 1300, "delaymq-columns": 20_000, "redis-zset": 1000, "postgres-skip-locked": 260}
DRIVER = f"""
import argparse, json, os, pathlib, sys
parser = argparse.ArgumentParser()
for name in ("--work", "--out", "--attempts", "--quiet"):
    parser.add_argument(name)
parser.add_argument("peers", nargs="*")
chosen = parser.parse_args()
number = int(chosen.out.rpartition("round-")[2].partition("-")[0])
results = []
for peer in chosen.peers:
    module = peer.partition(":")[0]
    name = {NAMES!r}.get(module, "postgres-skip-locked")
    for work in chosen.work.split(","):
        figures = {{"msg_s": {RATES!r}[name] * (1, 2, 0.5)[number]}}
        results.append({{"peer": name, "work": work, "figures": figures, "cpu": {{"foreign_cpu_pct": 25}}}})
        if module.startswith("delaymq"):
            assert any((pathlib.Path(place) / "peers" / f"{{module}}.py").exists() for place in sys.path), sys.path
        if name == os.environ.get("FAILING"):
            results[-1] = {{"peer": name, "work": work, "error": "no server"}}
pathlib.Path(chosen.out).write_text(json.dumps(results))
"""


def compared(folder: Path, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--peers", str(folder / "peers"), "--out", str(folder / "out"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=changed, cwd=folder)


def with_driver(folder: Path) -> Path:
    (folder / "peers").mkdir()
    (folder / "peers" / "run.py").write_text(DRIVER)
    return folder


def test_without_the_folder_one_line_says_so(tmp_path: Path) -> None:
    ended = compared(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "bench-peers: peers is not there, so that there is nothing to compare with\n"
    assert list(tmp_path.iterdir()) == []


def test_medians_of_the_rounds_stand_beside_each_other(tmp_path: Path) -> None:
    ended = compared(with_driver(tmp_path), "--rounds", "3")
    assert ended.returncode == 0, ended.stderr
    head, _, one, threads, rows, columns, _, others = ended.stdout.splitlines()
    assert head.count("|") == 8
    theirs = "1,000/s (500 to 2,000) | 260/s (130 to 520)"
    assert one == f"| one client, one message a call | 1,300/s (650 to 2,600) | {theirs} | 1.30 | 1.3: met | 5.00 |"
    assert threads.endswith("| 1.30 | 3.5: missed | 5.00 |")
    assert rows.endswith("| 1.30 | 4: missed | 5.00 |")
    assert columns.endswith(f"| 20,000/s (10,000 to 40,000) | {theirs} | 20.00 | 10: met | 76.92 |")
    assert others == "Other processes used 25% of the processors, at most 25%."
    kept = json.loads((tmp_path / "out" / "round-0-schedule-batch.json").read_text())
    assert [one["peer"] for one in kept] == ["redis-zset", "postgres-skip-locked", "delaymq", "delaymq-columns"]


def test_a_peer_that_cannot_be_measured_is_said_and_ends_with_one(tmp_path: Path) -> None:
    ended = compared(with_driver(tmp_path), "--rounds", "1", FAILING="redis-zset")
    assert ended.returncode == 1
    assert "| 1,300/s (1,300 to 1,300) | not measured | 260/s" in ended.stdout
    assert "| - | 1.3 | 5.00 |" in ended.stdout
    assert ended.stdout.splitlines()[-3:] == [
        f"redis-zset, {work}: no server" for work in ("schedule-1", "schedule-64", "schedule-batch")
    ]
