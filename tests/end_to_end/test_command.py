"""The command as a user runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq.bench import BENCHES


def command(*arguments: str, seconds: float = 110) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "delaymq", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=seconds, check=False)


ATTEMPTS = 3
UNMET = re.compile(r"BROKEN: only [0-9]+ of [0-9]+ kills met enough in flight")
"""Nothing is wrong with a store then: on a busy machine, most was published before a kill."""


def demo(folder: Path, *arguments: str, attempts: int = ATTEMPTS) -> subprocess.CompletedProcess[str]:
    """A demo, tried again in another store where all that is wrong is that a kill met too little."""
    ended = command("demo", *arguments, "--store", str(folder / f"store-{attempts}"))
    broken = [line for line in ended.stdout.splitlines() if line.startswith("BROKEN: ")]
    is_unmet = bool(broken) and all(map(UNMET.fullmatch, broken))
    return demo(folder, *arguments, attempts=attempts - 1) if is_unmet and attempts > 1 else ended


@pytest.mark.slow
@pytest.mark.timeout(ATTEMPTS * 120)
@pytest.mark.parametrize("more", [(), ("--server",)], ids=["process", "server"])
def test_the_demo_keeps_every_promise_and_reports_each_kill_and_how_late_it_was(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    ended = demo(tmp_path, "--messages", "20000", "--within", "4s", "--seed", "5", *more)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    printed = ended.stdout.splitlines()
    assert printed[-1] == "every promise kept"
    counts = {name: one(rf"{name} +([0-9,]+)$", printed) for name in ("published", "cancelled", "delivered")}
    assert counts["published"] == 20_000
    assert 600 < counts["cancelled"] < 1_400  # one in twenty, but for those that were due before
    assert counts["delivered"] >= 20_000 - counts["cancelled"]
    assert [one(rf"{name} +([0-9,]+)$", printed) for name in ("lost", "early", "left")] == [0, 0, 0]
    bound = r"\(allowed: ([0-9,]+); sent again after an unanswered publish: [0-9,]+\)"
    [[duplicated, allowed]] = found(rf"duplicated +([0-9,]+)  {bound}$", printed)
    assert duplicated <= allowed
    check_kills(printed)
    check_lateness(printed)


def check_kills(printed: list[str]) -> None:
    under_way = r"([0-9,]+) publishes under way \(([0-9,]+) messages\), ([0-9,]+) messages unacknowledged$"
    kills = found(rf"kill [0-9]+: {under_way}", printed)
    assert len(kills) == 2
    assert all(messages >= publishes >= 1 for publishes, messages, _ in kills)
    assert all(unacknowledged >= 1_000 for *_, unacknowledged in kills)
    answered = r"first publish answered after (?:[0-9,]+ ms|none)$"
    recovered = found(rf"recovered in ([0-9,]+) ms \(([0-9,]+) facts applied\); {answered}", printed)
    assert len(recovered) >= len(kills)  # one for each kill, those too that met too little in flight
    assert all(facts > 0 for _, facts in recovered)


def check_lateness(printed: list[str]) -> None:
    figures = ", ".join(rf"{name} (-?[0-9.]+) ms" for name in ("p50", "p99", r"p99\.9", "max"))
    [[*percentiles, count]] = found(rf"lateness +{figures}  \(n ([0-9,]+)\)$", printed)
    assert percentiles == sorted(percentiles)
    assert percentiles[0] > 0
    assert found(rf" +and (?:none|{figures}  \(n ([0-9,]+)\)) of what was due while it was down$", printed)
    bars = found(r" +(?:<=|>) [0-9.]+ ms +([0-9,]+)  #*$", printed)
    assert sum(bar for [bar] in bars) == count
    assert one(r"rate +([0-9,]+) messages/s published durably, restarts included$", printed) > 0
    assert one(r" +([0-9,]+) messages/s from the first line to the last$", printed) > 0
    assert one(r"([0-9.]+) s in all$", printed) > 4


def test_a_demo_is_tried_again_only_where_a_kill_met_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmet = "BROKEN: only 1 of 2 kills met enough in flight\n"
    ends = [(1, unmet), (1, "BROKEN: 1 message was lost\n" + unmet), (0, "every promise kept\n")]

    def told(*_words: str) -> subprocess.CompletedProcess[str]:
        code, out = ends.pop(0)
        return subprocess.CompletedProcess([], code, out, "")

    monkeypatch.setattr(sys.modules[__name__], "command", told)
    assert "lost" in demo(tmp_path).stdout
    assert demo(tmp_path).returncode == 0


def found(pattern: str, printed: list[str]) -> list[list[float]]:
    """The numbers of each line that is so."""
    matches = (re.match(pattern, line) for line in printed)
    groups = (match.groups() for match in matches if match)
    return [[float(number.replace(",", "")) for number in numbers if number is not None] for numbers in groups]


def one(pattern: str, printed: list[str]) -> float:
    """The only number of the only line that is so."""
    [[number]] = found(pattern, printed)
    return number


QUICK_SECONDS = 5.0
PROCESSORS = 2
BENCH_SECONDS = 280
"""Ends what hangs: on a machine with a load of twenty, the quick bench of clients took over a minute."""
BENCH_TIMEOUT = pytest.mark.timeout(BENCH_SECONDS + 20)
GRACE = 3  # where the processors are shared, the same work takes more of their time
WITH_A_PLAIN_LIMIT = ("append", "publish", "publish_many", "lateness", "clients")


def processor_seconds() -> float:
    """What processes that have ended used: a busy machine hardly changes it, unlike the time by the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows_of(*names: str, folder: Path) -> list[dict[str, Any]]:
    """What quick benches print, each row with a limit; nothing is left in the folder."""
    before = processor_seconds()
    ended = command("bench", *names, "--quick", "--json", "--folder", str(folder), seconds=BENCH_SECONDS)
    assert processor_seconds() - before < len(names) * QUICK_SECONDS * PROCESSORS * GRACE
    assert ended.returncode == 0, ended.stderr
    rows: list[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["bench"] for row in rows] == [name for name in names for _ in BENCHES[name](True)]
    for row in rows:
        name = row["bench"]
        assert list(row) == ["bench", "unit", "value", "limit", "ratio", "durability", "n", "detail"]
        assert row["value"] > 0 or name == "memory"
        assert ("limit_plain" in row["detail"]) == (name in WITH_A_PLAIN_LIMIT)
        assert row["detail"].get("limit_plain", 1) > 0
        assert ("memory_growth_bytes" in row["detail"]) == (name in ("burst", "backlog", "replay"))
        assert row["limit"] > 0
        assert row["durability"] in ("disk", "os", "none")
        assert row["detail"]["quick"] is True
        assert row["detail"].get("early", 0) == 0
        assert row["detail"]["limit_is"]
    assert list(folder.iterdir()) == []
    return rows


MEASURED_ELSEWHERE = ("backlog", "clients", "lateness", "subjects")
"""Benches of which other tests ask for `rows_of`, and more."""


@pytest.mark.slow
@BENCH_TIMEOUT
@pytest.mark.parametrize("name", [name for name in BENCHES if name not in MEASURED_ELSEWHERE])
def test_every_bench_prints_rows_with_a_limit(name: str, tmp_path: Path) -> None:
    assert rows_of(name, folder=tmp_path)


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


def test_a_verb_starts_without_the_modules_of_the_others() -> None:
    code = "import sys, delaymq.cli; delaymq.cli.main(['token']); print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=110, check=False)
    imported = set(ended.stderr.split())
    assert "delaymq.cli.verbs.token" in imported
    assert {name for name in imported if name.startswith("delaymq.cli.verbs.")} == {"delaymq.cli.verbs.token"}
    assert not imported & {"asyncio", "delaymq.bench", "delaymq.cli.spark"}
