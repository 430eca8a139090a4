"""What came of the rounds: counts, what is wrong, and the summary."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FINDINGS_KEPT = 40
UNMOUNTABLE_MAX, UNMOUNTABLE_SHARE_MAX = 3, 0.01


@dataclass
class Found:
    """Of all rounds; any thread may add."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cuts: Counter[str] = field(default_factory=Counter)
    """By file system, and by file system and `served`."""
    counts: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """Promises that were broken, by the words of the checker, and others by our own."""
    wrong: list[str] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)
    """Layers that were not run, and why; they fail where they must run."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Layers that this kernel cannot run at all, and why."""
    is_interrupted: threading.Event = field(default_factory=threading.Event)
    proofs: dict[str, str] = field(default_factory=dict)
    """By fault that was planted: how it was seen."""
    lateness_ms_max: int = 0

    def cut(self, layer: str) -> None:
        self.cut_many(layer, 1)

    def cut_many(self, layer: str, count: int) -> None:
        with self.lock:
            self.cuts[layer] += count

    def count(self, name: str, by: int = 1) -> None:
        with self.lock:
            self.counts[name] += by

    def add(self, name: str, what: str) -> None:
        """Something is wrong."""
        with self.lock:
            self.broken[name] += 1
            if len(self.wrong) < FINDINGS_KEPT:
                self.wrong.append(f"{name}: {what}")

    def unmountable(self, layer: str, why: str) -> None:
        """A file system was damaged by its own kernel: its round is not judged. Rare; often, it is a finding."""
        self.count(f"unmountable {layer}")
        with self.lock:
            often = sum(count for name, count in self.counts.items() if name.startswith("unmountable "))
            cuts = sum(self.cuts.values())
        if often > UNMOUNTABLE_MAX + cuts * UNMOUNTABLE_SHARE_MAX:
            self.add("unmountable", f"{often} file systems in {cuts} cuts: {why}")

    def judge(self, ledger: Path, clocks_ms: int) -> bool:
        """Has the checker judge a ledger; true where it is clean."""
        command = [sys.executable, "-m", "checker", "--quiet", "--clocks-ms", str(clocks_ms), str(ledger)]
        tests = str(Path(__file__).resolve().parents[1])
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": tests})
        if ended.returncode not in (0, 1, 2) or not ended.stdout:
            self.add("unjudged", f"{ledger.name}: {ended.stderr.strip()[-300:]}")
            return False
        verdict = json.loads(ended.stdout)
        if verdict["verdict"] == "unfit":
            self.add("unfit", f"{ledger.name}: {verdict['why']}")
            return False
        with self.lock:
            self._take(verdict)
        return bool(verdict["verdict"] == "clean")

    def _take(self, verdict: dict[str, Any]) -> None:
        for name, count in verdict["findings"].items():
            self.broken[name] += count
            examples = verdict["examples"].get(name, [])
            self.wrong += [f"{name}: {one}" for one in examples[: max(FINDINGS_KEPT - len(self.wrong), 0)]]
        for name in ("messages", "delivered", "finished", "dead"):
            self.counts[name] += verdict[name]
        for part in ("published", "cancelled", "moved", "duplicates"):
            for name, count in verdict[part].items():
                self.counts[f"{part} {name}"] += count
        self.lateness_ms_max = max(self.lateness_ms_max, verdict["lateness_ms"].get("max", 0))

    @property
    def is_broken(self) -> bool:
        return any(self.broken.values())


def summary(found: Found, seconds: float) -> dict[str, Any]:
    """As JSON."""
    counts = found.counts
    rules = ("lost", "early", "corrupt", "torn", "resurrected", "finished_again")
    return {
        "cuts": dict(sorted(found.cuts.items())),
        "cuts_in_all": sum(found.cuts.values()),
        "restarts": counts["restarts"],
        "restarts_per_second": round(counts["restarts"] / max(seconds, 0.001), 1),
        "seconds": round(seconds, 1),
        "published": counts["published acknowledged"],
        "ambiguous": counts["published ambiguous"],
        "delivered": counts["delivered"],
        "finished": counts["finished"],
        "duplicates": counts["duplicates crash"],
        "duplicates_cap": counts["duplicates cap"],
        **{rule: found.broken[rule] for rule in rules},
        "broken": {name: count for name, count in sorted(found.broken.items()) if count},
        "wrong": found.wrong,
        "not_run": {**found.not_run, **found.cannot},
        "proofs": found.proofs,
        "others": {
            name: counts[name]
            for name in sorted(counts)
            if name.startswith(("full ", "quota ", "fault ", "SIGBUS ", "unmountable "))
        },
    }


def told(figures: dict[str, Any]) -> str:
    """One line for people."""
    cuts = ", ".join(f"{count} {layer}" for layer, count in figures["cuts"].items())
    kept = f"{figures['published']} published, {figures['delivered']} delivered, {figures['finished']} finished"
    broken = ", ".join(f"{figures[rule]} {rule}" for rule in ("lost", "early", "corrupt"))
    doubled = f"{figures['duplicates']} doubled (at most {figures['duplicates_cap']})"
    rate = f"{figures['restarts_per_second']} restarts/s"
    return f"power cuts: {figures['cuts_in_all']} ({cuts}), {rate}, {kept}; {broken}, {doubled}"
