"""Calls of a file system that fail under `delaymq serve`: `python -m amnesia.served_errors --failures N`.

The k-th call of one kind fails in a first start, while clients publish and consume, or when the server starts again.
It may go on, refuse to start or stop itself, each in time and by an exit code that its documents name. Then a server
without faults hands over everything that was acknowledged: on the same disk, after the kernel forgot what it had read,
or after a power cut.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from amnesia.filesystem import FUSE, FileSystem, not_run, say, work_folder
from amnesia.io_errors import AFTERWARDS, ERRORS, KINDS, TIMES, Case
from amnesia.totals import SHOWN, Totals, run
from power_cuts.served import ANSWER_SECONDS, CLOCKS_MS, IN_FLIGHT, START_SECONDS, Life, drained
from power_cuts.telling import Ledger
from serving import Peer

WORK_S = 0.4
GOES_ON_S = 0.4
"""After the call failed, before the process is killed."""
WHEN = ("first start", "work", "start again")
CALLS_OF_START_MAX = {"write": 12, "fdatasync": 8, "fsync_folder": 8, "read": 8, "stat": 8, "open": 8, "create": 5}
CALLS_MAX = {
    "first start": CALLS_OF_START_MAX,
    "work": {"write": 30, "fdatasync": 30},
    "start again": CALLS_OF_START_MAX,
}
CALLS_OF_OTHERS_MAX = 2
ONLY_WHEN = {"mkdir": ("first start",), "read": ("start again",), "list": ("first start", "start again")}
"""Kinds of calls that a server at work seldom makes."""
DISK_FULL = 1004
ENDS = {None: "went on", 3: "stopped itself or refused", 6: "refused for want of room"}
PLANTED = "SyncErrorSwallowed"
PLANTED_STORES_MAX = 6


class FailingLife(Life):
    """A server some of whose calls fail: what it refuses it may refuse, and its end is told by its exit code."""

    def refusal(self, code: int) -> str | None:
        return "refused" if code == DISK_FULL else "ambiguous"

    def _work(self, work: Callable[[Peer], None]) -> None:
        """A connection may end with the server, and not without it."""
        super()._work(work)
        end = time.monotonic() + ANSWER_SECONDS
        while self.failed and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        if self.process.poll() is not None:
            self.failed = ""


@dataclass
class Rig:
    """Where stores are served, and what was seen of them."""

    daemon: Path
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment of the lives with a fault: what is planted in them."""
    only: str = ""
    """The one kind of call that fails; for ever, with EIO, at work, before a power cut."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    failed: Counter[str] = field(default_factory=Counter)
    """By kind, the histories in which a call failed."""
    ends: Counter[str] = field(default_factory=Counter)

    def case_of(self, seed: int) -> tuple[Case, str]:
        """One kind after the other, all else by chance."""
        chance = random.Random(f"served errors {seed}")
        kind = self.only or KINDS[seed % len(KINDS)]
        error = chance.choice((*ERRORS, "short") if kind == "write" else ERRORS)
        when = chance.choice(ONLY_WHEN.get(kind, WHEN))
        place = chance.randint(1, CALLS_MAX[when].get(kind, CALLS_OF_OTHERS_MAX))
        if self.only:
            return Case(kind, place, "EIO", "ever", "cut all"), "work"
        return Case(kind, place, error, chance.choice(TIMES), chance.choice(AFTERWARDS)), when

    def torture(self, seed: int, totals: Totals) -> list[str]:
        """One store: a life in which a call fails, in some after one without, then the drain; what is wrong with it."""
        case, when = self.case_of(seed)
        path, what = self.folder / f"failing-{seed}.ledger", f"served store, seed {seed}, {case}, in a {when}"
        with closing(Ledger(path, "io_errors, served", seed, {"case": str(case), "when": when})) as ledger:
            with FileSystem(self.daemon, self.folder / f"failing-disk-{seed}") as disk:
                store, lives = disk.place / "store", 1
                if when == "start again":
                    if wrong := self.live(disk, Life(ledger, store, lives, seed), None, when):
                        return [f"{what}: before anything failed: {wrong}"]
                    lives += 1
                if wrong := self.live(disk, FailingLife(ledger, store, lives, seed, self.variables), case, when):
                    return [f"{what}: {wrong}"]
                if case.afterwards == "drop":
                    disk.tell("drop")
                elif case.afterwards.startswith("cut"):
                    disk.tell(f"{case.afterwards} {case.place}")
                    disk.tell("remount")
                if wrong := drained(ledger, store, lives + 1, seed):
                    return [f"{what}: the drain ended with {wrong}"]
            ledger.tell("drained")
        return totals.judge(what, path, CLOCKS_MS)

    def live(self, disk: FileSystem, life: Life, case: Case | None, when: str) -> str:
        """Serves for a while, and is killed; what is wrong."""
        fault = f"fail {case.kind} {case.place} {case.error} {case.times} {case.place}" if case else ""
        try:
            if fault and when != "work":
                disk.tell(fault)
            if life.await_address(START_SECONDS):
                life.begin(life.produce, life.consume)
                time.sleep(WORK_S)
                if fault and when == "work":
                    disk.tell(fault)
                time.sleep(GOES_ON_S)
            code = life.process.poll()
            with life.ledger.lock:
                life.is_cut = True
        finally:
            _, said = life.end()
        life.ledger.tell("stop", cause="kill", in_flight_max=IN_FLIGHT)
        failed = disk.tell("counts")["failed"]
        disk.tell("clear")
        if case:
            with self.lock:
                self.failed[case.kind] += failed > 0
                self.ends[ENDS.get(code, f"ended with {code}") if failed else "nothing failed"] += 1
        is_right = code in ENDS if failed else code is None
        return "" if is_right and not life.failed else f"{code}: {life.failed} {said}"


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="amnesia.served_errors", description=__doc__)
    options.add_argument("--failures", type=int, default=4 * len(KINDS), help="stores, one failing call each")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=6, help="stores at once, which mostly wait")
    options.add_argument("--daemon", type=Path, required=True, help="delaymq-amnesia")
    options.add_argument("--packages", type=Path, help="with faults that can be planted, one of which must be caught")
    chosen = options.parse_args(arguments)
    refused = not_run("io-errors, served", (FUSE,))
    if refused is not None:
        return refused
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="served-errors-", dir=work_folder()) as folder:
        rig = Rig(chosen.daemon.resolve(), Path(folder))
        totals = run(rig.torture, range(chosen.seed, chosen.seed + chosen.failures), chosen.workers)
        ends = ", ".join(f"{count} {how}" for how, count in rig.ends.most_common())
        say(
            f"io-errors: {totals.stores} stores served, {sum(rig.failed.values())} calls of {len(+rig.failed)} of "
            f"{len(KINDS)} kinds failed, in {time.monotonic() - began:.0f} s; {totals.acknowledged} messages "
            f"acknowledged, {totals.delivered} deliveries; servers: {ends}"
        )
        for wrong in totals.wrong:
            say(f"io-errors: BROKEN: {wrong}")
        kept = not totals.wrong
        untried = [kind for kind in KINDS if not rig.failed[kind]]
        if untried and kept:
            say(f"io-errors: NOT TRIED in a server: {', '.join(untried)}")
            kept = False
        if chosen.packages:
            kept = catches_planted(rig, chosen) and kept
    return 0 if kept else 1


def catches_planted(rig: Rig, chosen: argparse.Namespace) -> bool:
    """True where it is found that a server counts a failed sync as done."""
    variables = {"PYTHONPATH": str(chosen.packages.resolve()), "DELAYMQ_PLANTED": PLANTED}
    faulty = Rig(rig.daemon, rig.folder, variables, only="fdatasync")
    totals = run(faulty.torture, range(10_000, 10_000 + PLANTED_STORES_MAX), chosen.workers)
    shown = [wrong for wrong in totals.wrong if SHOWN.search(wrong)]
    told = f"caught: {shown[0][:200]}" if shown else f"NOT CAUGHT, {totals.wrong}"
    say(f"io-errors: planted {PLANTED} in a server: {told}")
    return bool(shown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
