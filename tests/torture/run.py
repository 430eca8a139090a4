"""One store tortured by a process of its own, and its ledger judged by another; what all of them together have seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
# The server projects the wall clock by the kernel's boot-time clock, the harness reads the wall clock.
CLOCKS_MS = 20
STORE_SECONDS = 900


@dataclass(frozen=True)
class Run:
    """A store to be tortured."""

    by: str
    kills: int
    seed: int
    durability: str
    first: int
    """The place of its first failpoint."""
    is_planted: bool
    fault: str = ""
    only: tuple[str, ...] = ()
    """Failpoints; it is killed nowhere else."""

    @property
    def name(self) -> str:
        return f"{self.by}-{self.seed}{'-' if self.fault else ''}{self.fault}"


@dataclass(frozen=True)
class Places:
    """Where stores, ledgers and what is tortured lie."""

    stores: Path
    ledgers: Path
    program: str
    packages: str


@dataclass(frozen=True)
class Outcome:
    """What came of a store."""

    run: Run
    verdict: str
    judged: dict[str, Any]
    ended: dict[str, Any]
    error: str

    def told(self) -> str:
        """It in one line."""
        how = "planted" if self.run.is_planted else "release"
        head = f"{self.verdict}: {self.run.by} ({how}, {self.run.durability}) seed {self.run.seed}"
        if not self.judged.get("published"):
            return f"{head}: {self.error or self.judged.get('why', '')}"
        kills = ", ".join(f"{count} {cause}" for cause, count in sorted(self.ended["kills"].items()))
        found = ", ".join(f"{count} {name}" for name, count in self.judged["findings"].items() if count)
        counts = f"{self.judged['published']['acknowledged']} published, {self.judged['delivered']} delivered"
        largest = f"{self.judged['duplicates']['largest_after_a_stop']} twice after a stop at most"
        return f"{head}: {kills}; {counts}, {largest}; {found or 'nothing wrong'}"


def environment() -> dict[str, str]:
    """Of the project's own processes: their lines are not counted, and nothing is planted in them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "DELAYMQ_"))}
    return {**kept, "PYTHONPATH": str(TESTS)}


def tortured(run: Run, places: Places, *, keeps: bool) -> Outcome:
    """Tortures it and has it judged; the ledger of one that is clean is removed."""
    store, ledger = places.stores / run.name, places.ledgers / f"{run.name}.jsonl"
    chosen = ["--by", run.by, "--kills", run.kills, "--seed", run.seed, "--durability", run.durability]
    chosen += [
        "--first",
        run.first,
        "--store",
        store,
        "--ledger",
        ledger,
        "--fault",
        run.fault,
        "--only",
        ",".join(run.only),
    ]
    if run.by == "driven":
        chosen += ["--program", places.program]
    elif run.is_planted:
        chosen += ["--packages", places.packages]
    ended = called("torture.store", *map(str, chosen))
    if ended.returncode:
        return Outcome(run, "failed", {}, {}, f"{ended.stderr[-3000:]}\nthe ledger is {ledger}")
    judged = called("checker", "--quiet", "--clocks-ms", str(CLOCKS_MS), str(ledger))
    verdict: dict[str, Any] = json.loads(judged.stdout)
    if verdict["verdict"] == "clean" and not keeps:
        ledger.unlink()
        store.with_suffix(".said").unlink(missing_ok=True)
    return Outcome(run, verdict["verdict"], verdict, json.loads(ended.stdout), judged.stderr)


def called(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=STORE_SECONDS, check=False
    )


@dataclass
class Totals:
    """What all stores together have seen."""

    stores: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    kills_of: Counter[str] = field(default_factory=Counter)
    failpoints: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.stores += 1
        self.verdicts[outcome.verdict] += 1
        if not outcome.judged.get("published"):
            return
        judged, ended = outcome.judged, outcome.ended
        self.kills.update(ended["kills"])
        self.kills_of[outcome.run.by] += sum(count for cause, count in ended["kills"].items() if cause != "stopped")
        self.failpoints.update(ended["failpoints"])
        self.figures.update({"starts": judged["starts"], "delivered": judged["delivered"]})
        self.figures.update(judged["published"])
        self.findings.update(judged["findings"])
        again = judged["duplicates"]
        self.duplicates.update({name: count for name, count in again.items() if name != "largest_after_a_stop"})

    def as_json(self, seconds: float, at_once: int, unreached: list[str], faults: dict[str, str]) -> dict[str, Any]:
        restarts = sum(self.kills_of.values()) / max(seconds, 0.001)
        return {
            "stores": self.stores,
            "verdicts": dict(self.verdicts),
            "kills": sum(self.kills_of.values()),
            "kills_by_cause": dict(self.kills),
            "kills_of": dict(self.kills_of),
            "failpoints_reached": len(self.failpoints),
            "failpoints_unreached": unreached,
            "seconds": round(seconds, 1),
            "stores_at_once": at_once,
            "restarts_per_second": round(restarts, 2),
            "figures": dict(self.figures),
            "duplicates": dict(self.duplicates),
            "findings": dict(self.findings),
            "planted": faults,
        }
