"""The command as a user runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import delaymq
from delaymq.bench import BENCHES


def command(*arguments: str, seconds: float = 110) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "delaymq", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.slow
def test_the_demo_keeps_every_promise(tmp_path: Path) -> None:
    ended = command("demo", "--messages", "20000", "--within", "4s", "--store", str(tmp_path / "store"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = dict(line.split(None, 1) for line in ended.stdout.splitlines() if " " in line)
    assert lines["published"] == "20,000"
    assert lines["lost"] == lines["early"] == lines["left"] == "0"
    assert ended.stdout.count("publishes under way") == 2
    assert ended.stdout.endswith("every promise kept\n")
    assert "lateness" in lines


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_prints_rows_with_a_limit(name: str) -> None:
    ended = command("bench", name, "--quick", "--json")
    assert ended.returncode == 0, ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert rows
    for row in rows:
        assert list(row) == ["bench", "unit", "value", "limit", "ratio", "durability", "n", "detail"]
        assert row["bench"] == name
        assert row["value"] > 0 or name == "memory"
        assert row["limit"] > 0
        assert row["durability"] in ("disk", "os", "none")
        assert row["detail"]["quick"] is True
        assert row["detail"].get("early", 0) == 0
        assert row["detail"]["limit_is"]


def test_verify_reads_a_sound_store_and_names_damage(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with delaymq.open(folder) as store:
        store.publish_many("a", [b"x" * 200] * 20, 3600)
        store.checkpoint()
    ended = command("verify", "--store", str(folder), "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert found["problems"] == []
    assert found["records"] >= 20
    segment = next(path for path in sorted((folder / "log").glob("*.segment")) if b"x" * 200 in path.read_bytes())
    content = bytearray(segment.read_bytes())
    content[content.index(b"x" * 200)] ^= 1
    segment.write_bytes(content)
    ended = command("verify", "--store", str(folder))
    assert ended.returncode == 1
    assert segment.name in ended.stdout


def test_verify_of_what_is_no_store_says_so(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    ended = command("verify", "--store", str(tmp_path))
    assert ended.returncode == 3
    assert ended.stderr.startswith("delaymq: ")
