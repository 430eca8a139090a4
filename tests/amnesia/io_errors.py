"""Every call that a store makes of its file system fails once: `python -m amnesia.io_errors`.

A history with everything in it (first start, publishes, rolls, checkpoints, retirement, a close, a reopen) runs on the
file system of `rust/amnesia`, which lets the k-th call of one kind fail: k = 1, 2, … until there is no k-th call. It is
passed where every process ends as a store may end, in time and by no signal, and where a drain without faults finds
everything that was acknowledged: on the same disk, after the kernel forgot what it had read, or after a power cut.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from amnesia.filesystem import FUSE, FileSystem, keep, not_run, say, work_folder
from amnesia.torturing import Ledger, judge

KINDS = (
    "open",
    "create",
    "read",
    "write",
    "fdatasync",
    "fsync_folder",
    "rename",
    "unlink",
    "fallocate",
    "mkdir",
    "open_folder",
    "list",
    "stat",
)
"""The calls of `storage.rs`, `store_lock.rs` and `mapping.rs` in `rust/engine/src/files`.

Another kind that is seen fails the sweep.
"""
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EINTR")
TIMES = ("ever", "once")
AFTERWARDS = ("nothing", "drop", "cut any", "cut all")
HISTORY = {
    "--delay-ms-max": 20,
    "--far-ms-max": 60,
    "--copy-after-ms": 15,
    "--body-bytes-max": 700,
    "--checkpoint-facts": 90,
    "--groups": 1,
    "--subjects": 1,
    "--quiet-ms": 60,
}
FOLDERS = ("mkdir", "open_folder", "fsync_folder")
"""Calls that give names to what is new. Each also fails once, and then nothing outlives that was not synced: what the
next process finds there need not be durable.
"""
STEPS = (14, 8)
"""Of the publisher, in each of the two lives."""
ENDS_WITHIN_S = 120  # a call that is interrupted for ever is made a thousand times, on a busy machine
ENDS = {0: "went on", 4: "stopped itself", 5: "refused"}
JUDGED_AT_ONCE = 40
PLANTED = "SyncErrorSwallowed"
PLANTED_PLACES = range(25, 90, 5)


@dataclass(frozen=True)
class Case:
    """One call that fails."""

    kind: str
    place: int
    error: str
    times: str
    afterwards: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place} {self.error} {self.times}, then {self.afterwards}"


def how_it_ended(code: int | None, ended: dict[str, Any]) -> str | None:
    """In one of the ways in which a store may; None otherwise."""
    if code == 7 and ended.get("error", "").startswith("the disk is full"):
        # A disk on which no segment can be prepared is one without room.
        return ENDS[5]
    return None if code is None else ENDS.get(code)


@dataclass
class Sweep:
    """What was swept so far."""

    program: Path
    daemon: Path
    folder: Path
    seed: int
    extra: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    sites: Counter[str] = field(default_factory=Counter)
    """Of each kind, the furthest call that failed for ever with EIO."""
    failed: int = 0
    runs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ledgers: list[Path] = field(default_factory=list)

    def fails(self, case: Case | None, why: str) -> None:
        with self.lock:
            self.wrong.append(f"{case}: {why}")

    def history(self, disk: FileSystem, case: Case | None) -> tuple[bool, dict[str, int]]:
        """The history with one call failing; whether it did, and how many calls there were."""
        with self.lock:
            self.runs += 1
            path = self.folder / f"ledger-{self.runs}.jsonl"
        options = {**HISTORY, **self.extra}
        ledger = Ledger(path, "io_errors", self.seed, {"case": str(case), **options})
        store = disk.place / "store"
        disk.tell("fresh")
        if case is not None:
            disk.tell(f"fail {case.kind} {case.place} {case.error} {case.times} {self.seed}")
        for steps in STEPS:
            life = ledger.begin(self.program, "work", store, {**options, "--steps": steps})
            code = life.exit_code(ENDS_WITHIN_S)
            if code is None:
                life.kill()
            ledger.finish(life, "closed" if code == 0 else "kill")
            end = how_it_ended(code, ledger.ended)
            if end is None or (case is None and code != 0):
                what = "did not end" if code is None else f"ended with {code}"
                self.fails(case, f"life {ledger.lives} {what}: {ledger.ended}")
            with self.lock:
                self.ends[end or "wrong"] += 1
        counts = disk.tell("counts")
        disk.tell("clear")
        if case is not None and case.afterwards == "drop":
            disk.tell("drop")
        elif case is not None and case.afterwards.startswith("cut"):
            disk.tell(f"{case.afterwards} {case.place}")
            disk.tell("remount")
        if wrong := ledger.drain(self.program, store, HISTORY):
            self.fails(case, f"afterwards: {wrong}")
        else:
            self.queue(path)
        failed = counts.pop("failed") > 0
        return failed, counts

    def queue(self, path: Path) -> None:
        with self.lock:
            self.ledgers.append(path)
            if len(self.ledgers) < JUDGED_AT_ONCE:
                return
            mine, self.ledgers = self.ledgers, []
        self.judge(mine)

    def judge(self, ledgers: list[Path]) -> None:
        """Ledgers of runs in which nothing came out are no less judged: what was acknowledged must be there."""
        if not ledgers:
            return
        _, verdicts = judge(ledgers)
        if len(verdicts) != len(ledgers):
            self.wrong.append(f"the checker judged {len(verdicts)} of {len(ledgers)} ledgers")
        for path, one in zip(ledgers, verdicts, strict=False):
            if one["verdict"] != "clean" and "saw nothing" not in one.get("why", ""):
                case = json.loads(path.read_text().split("\n", 1)[0])["options"]["case"]
                self.wrong.append(
                    f"{case}: {keep(path)}: {one['verdict']} {one.get('why', '')} {one['findings']} {one['examples']}"
                )
            else:
                path.unlink()


def climbing(kind: str, error: str, times: str, afterwards: tuple[str, ...]) -> Iterator[Case]:
    """Every call of a kind, until it is seen that there is none."""
    return (Case(kind, place, error, times, afterwards[place % len(afterwards)]) for place in count(1))


def sampled(kind: str, error: str, times: str, seen: int, chosen: argparse.Namespace) -> Iterator[Case]:
    chance = random.Random(f"{chosen.seed} {kind} {error} {times}")
    places = sorted(chance.randint(1, max(seen, 1)) for _ in range(chosen.sample))
    return iter([Case(kind, place, error, times, chance.choice(AFTERWARDS)) for place in places])


class Row(NamedTuple):
    """Cases that are worked on one after the other."""

    cases: Iterator[Case]
    climbs: bool
    """It is over when a call did not fail."""


def rows_of(counts: dict[str, int], chosen: argparse.Namespace) -> list[Row]:
    """Rows of cases, the longest first; what is worked on at once are rows."""
    by_length = sorted(KINDS, key=lambda kind: -counts[kind])
    rows = [Row(climbing(kind, "EIO", "ever", AFTERWARDS), climbs=True) for kind in by_length]
    if not chosen.all:
        rows += [Row(climbing(kind, "EIO", "once", ("cut all",)), climbs=True) for kind in FOLDERS]
    for kind in by_length:
        others = [
            (error, times) for error in (*ERRORS, "short") for times in TIMES if (error, times) != ("EIO", "ever")
        ]
        for error, times in others:
            if error == "short" and kind != "write":
                continue
            if chosen.all:
                rows += [Row(climbing(kind, error, times, (afterwards,)), climbs=True) for afterwards in AFTERWARDS]
            else:
                rows.append(Row(sampled(kind, error, times, counts[kind], chosen), climbs=False))
    return rows


def work_on(state: Sweep, rows: Iterator[Row], disk: FileSystem) -> None:
    """Takes one row after the other."""
    while True:
        with state.lock:
            row = next(rows, None)
        if row is None:
            return
        for case in row.cases:
            failed, _ = state.history(disk, case)
            is_swept = (case.error, case.times) == ("EIO", "ever")
            with state.lock:
                state.failed += failed
                if failed and is_swept:
                    state.sites[case.kind] = max(state.sites[case.kind], case.place)
            if not failed and row.climbs:
                break


def sweep(state: Sweep, chosen: argparse.Namespace, counts: dict[str, int]) -> None:
    """Works on all cases, so many at a time."""
    rows = iter(rows_of(counts, chosen))

    def work(number: int) -> None:
        try:
            with FileSystem(state.daemon, state.folder / f"disk-{number}") as disk:
                work_on(state, rows, disk)
        except Exception as error:  # noqa: BLE001 - a thread's own error must fail the run
            state.fails(None, repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(chosen.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def catches_planted(rig: Sweep) -> bool:
    """True where it is found that a failed sync counts as done."""
    state = Sweep(rig.program, rig.daemon, rig.folder / "planted", rig.seed, {"--planted": PLANTED})
    state.folder.mkdir()
    with FileSystem(state.daemon, state.folder / "disk") as disk:
        for place in PLANTED_PLACES:
            state.history(disk, Case("fdatasync", place, "EIO", "ever", "cut all"))
            state.judge(state.ledgers)
            state.ledgers = []
            if state.wrong:
                break
    # Messages are lost, or the store is: without the fault the same cases pass.
    say(f"io-errors: planted {PLANTED}: {f'caught: {state.wrong[0][:200]}' if state.wrong else 'NOT CAUGHT'}")
    return bool(state.wrong)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="amnesia.io_errors", description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--workers", type=int, default=16, help="histories at once, which wait most of the time")
    options.add_argument("--sample", type=int, default=2, help="calls that fail otherwise than with EIO for ever")
    options.add_argument("--all", action="store_true", help="each call fails in each way")
    options.add_argument("--program", type=Path, required=True, help="the example `tortured`")
    options.add_argument("--daemon", type=Path, required=True, help="delaymq-amnesia")
    options.add_argument("--planted", action="store_true", help="plant a fault, too, which must be caught")
    chosen = options.parse_args(arguments)
    refused = not_run("io-errors", (FUSE,))
    if refused is not None:
        return refused
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="io-errors-", dir=work_folder()) as folder:
        state = Sweep(chosen.program.resolve(), chosen.daemon.resolve(), Path(folder), chosen.seed)
        with FileSystem(state.daemon, state.folder / "clean") as disk:
            _, counts = state.history(disk, None)
        for kind, seen in counts.items():
            if (seen > 0) is not (kind in KINDS):
                state.fails(None, f"{seen} calls of {kind} in a history without faults: the list of kinds is not true")
        if not state.wrong:
            sweep(state, chosen, counts)
        state.judge(state.ledgers)
        if chosen.planted and not catches_planted(state):
            state.fails(None, f"{PLANTED} was planted and not caught")
    seconds = time.monotonic() - began
    for kind in KINDS:
        missing = "" if state.sites[kind] else "  NOT SWEPT"
        say(f"io-errors: {kind:<13} {state.sites[kind]:>4} calls failed for ever with EIO, each one{missing}")
    unswept = [kind for kind in KINDS if not state.sites[kind]]
    ends = ", ".join(f"{times} {how}" for how, times in state.ends.most_common())
    say(
        f"io-errors: {len(KINDS) - len(unswept)} of {len(KINDS)} kinds, {sum(state.sites.values())} sites, "
        f"{state.failed} failures of {state.runs} histories in {seconds:.0f} s; processes: {ends}"
    )
    for wrong in state.wrong:
        say(f"io-errors: BROKEN: {wrong}")
    return 1 if state.wrong or unswept else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
