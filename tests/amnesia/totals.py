"""What all stores together have seen whose power was cut on a disk that forgets."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amnesia.filesystem import LOSSES, keep, say
from amnesia.torturing import judge

SHOWN = re.compile(
    r" broken: [^:]*\b[1-9]\d* (lost|finished_again)\b|the drain ended with [348]\b|by itself with [37]\b"
    r"|: 4 before the cut"
)
"""Messages are lost, or come after their acknowledgement was answered; or the store refuses to open, is damaged when it
is verified, or meets what must not be. Without the fault the same cuts leave nothing of that."""
Torture = Callable[[int, "Totals"], list[str]]
"""Of the store of one seed; what is wrong with it."""


@dataclass
class Totals:
    """Any thread may add."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cuts: int = 0
    by_loss: Counter[str] = field(default_factory=Counter)
    during_start: int = 0
    unsynced: int = 0
    something_unsynced: int = 0
    stores: int = 0
    acknowledged: int = 0
    delivered: int = 0
    duplicates: int = 0
    wrong: list[str] = field(default_factory=list)

    def cut(self, loss: str, unsynced: int, *, during_start: bool) -> None:
        with self.lock:
            self.cuts += 1
            self.by_loss[loss] += 1
            self.during_start += during_start
            self.unsynced += unsynced
            self.something_unsynced += unsynced > 0

    def judge(self, what: str, path: Path, clocks_ms: int) -> list[str]:
        """Has the checker judge a ledger; what is wrong."""
        code, verdicts = judge([path], clocks_ms)
        with self.lock:
            self.stores += 1
            for one in verdicts:
                self.acknowledged += one.get("published", {}).get("acknowledged", 0)
                self.delivered += one.get("delivered", 0)
                self.duplicates += one.get("duplicates", {}).get("crash", 0)
        if code == 0 or "saw nothing" in verdicts[0].get("why", ""):
            path.unlink()
            return []
        say(f"amnesia: {what}: its ledger is {keep(path)}; again with that --seed")
        return [f"{what}: {told_of(one)}" for one in verdicts]

    def tell(self, what: str, seconds: float) -> None:
        losses = ", ".join(f"{self.by_loss[loss]} {loss}" for loss in LOSSES)
        say(
            f"amnesia: {self.cuts} power cuts ({losses}; {self.during_start} during a start) of {self.stores} {what} "
            f"in {seconds:.0f} s; {self.something_unsynced} when something was not synced, {self.unsynced} changes; "
            f"{self.acknowledged} messages acknowledged, {self.delivered} deliveries, {self.duplicates} doubled"
        )
        for wrong in self.wrong:
            say(f"amnesia: BROKEN: {wrong}")


def told_of(verdict: dict[str, Any]) -> str:
    """What was found, and nothing that was looked for in vain."""
    found = ", ".join(f"{count} {name}" for name, count in verdict["findings"].items() if count)
    return f"{verdict['verdict']}: {verdict.get('why') or found}: {verdict['examples']}"


def run(torture: Torture, seeds: range, workers: int) -> Totals:
    """Stores of these seeds, so many at a time, up to the first with which something is wrong."""
    totals, left = Totals(), iter(seeds)

    def work() -> None:
        while not totals.wrong:
            with totals.lock:
                mine = next(left, None)
            if mine is None:
                return
            try:
                wrong = torture(mine, totals)
            except Exception as error:  # noqa: BLE001 - a thread's own error must fail the run
                wrong = [f"seed {mine}: {error!r}"]
            with totals.lock:
                totals.wrong += wrong

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return totals
