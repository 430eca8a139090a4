"""Power cuts on a disk that forgets and tears what was not synced: `python -m amnesia.power_cuts --cuts N`.

The program works on a file system of our own (`rust/amnesia`). In the middle of its work, or of its start, the power is
cut: the disk answers nobody, the process is killed, and what was not synced is lost in one of four ways, sector by
sector and name by name. The next life begins on what is left. At the end everything is drained, and the independent
checker judges.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amnesia.filesystem import FUSE, LOSSES, FileSystem, keep, not_run, say, work_folder
from amnesia.torturing import Ledger, Life, judge

CUTS_OF_A_STORE = 15
CALLS_MAX = 250
"""That change something on the disk, before its power is cut in the middle of one."""
STARTS_CALLS_MAX = 25
"""The same of a cut that comes with the start."""
WITHIN_MS = 4000
"""A life that makes no more calls is cut then."""
STARTS = 0.2
LAST_WORDS_S = 0.02
"""What is answered without the disk may still be answered when that is gone."""
PLANTED = {
    "forgotten syncs": {"--forgets": "syncs"},
    "FolderNotSynced": {"--planted": "FolderNotSynced"},
}
PLANTED_CUTS_MAX = 120


@dataclass
class Totals:
    """What all stores together have seen."""

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


@dataclass
class Rig:
    """What one store is tortured with."""

    program: Path
    daemon: Path
    extra: dict[str, Any]
    folder: Path


def cut(disk: FileSystem, life: Life, loss: str, seed: int) -> tuple[int, int | None]:
    """Cuts the power before one call; how much was not synced, and how the life ended if it did so by itself."""
    answer = disk.tell(f"await {WITHIN_MS}")
    code = life.process.poll()
    if not answer["cut"]:
        answer = disk.tell(f"cut {loss} {seed}")
    time.sleep(LAST_WORDS_S)
    life.process.kill()
    disk.tell("remount")
    life.process.wait()
    return answer["pending"], code


def torture(rig: Rig, seed: int, cuts: int, totals: Totals) -> list[str]:
    """One store from its making to its drain; what is wrong with it."""
    chance = random.Random(seed)
    place, path = rig.folder / f"disk-{seed}", rig.folder / f"ledger-{seed}.jsonl"
    ledger = Ledger(path, "amnesia", seed, {"cuts": cuts, **rig.extra})
    with FileSystem(rig.daemon, place) as disk:
        store = place / "store"
        for _ in range(cuts):
            loss, starts = chance.choice(LOSSES), chance.random() < STARTS
            calls, grain = chance.randint(0, STARTS_CALLS_MAX if starts else CALLS_MAX), chance.getrandbits(63)
            disk.tell(f"cut-at {calls} {loss} {grain}")
            life = ledger.begin(rig.program, "work", store, rig.extra)
            unsynced, code = cut(disk, life, loss, grain)
            ledger.finish(life, "cut")
            if code is not None:
                return [f"seed {seed}: life {ledger.lives} ended by itself with {code}: {ledger.ended}"]
            with totals.lock:
                totals.cuts += 1
                totals.by_loss[loss] += 1
                totals.during_start += starts
                totals.unsynced += unsynced
                totals.something_unsynced += unsynced > 0
        wrong = ledger.drain(rig.program, store, rig.extra)
    if wrong:
        return [f"seed {seed}: {wrong}"]
    return verdict(seed, path, totals)


def verdict(seed: int, path: Path, totals: Totals) -> list[str]:
    code, verdicts = judge([path])
    with totals.lock:
        totals.stores += 1
        for one in verdicts:
            totals.acknowledged += one.get("published", {}).get("acknowledged", 0)
            totals.delivered += one.get("delivered", 0)
            totals.duplicates += one.get("duplicates", {}).get("crash", 0)
    if code == 0 or "saw nothing" in verdicts[0].get("why", ""):
        path.unlink()
        return []
    say(f"amnesia: its ledger is {keep(path)}; again with --seed {seed} --cuts 1")
    return [
        f"seed {seed}: {one['verdict']} {one.get('why', '')} {one['findings']} {one['examples']}" for one in verdicts
    ]


def run(rig: Rig, seed: int, cuts: int, workers: int, cuts_of_a_store: int) -> Totals:
    """So many cuts, by so many stores at a time."""
    totals = Totals()
    stores = iter(range(seed, seed + -(-cuts // cuts_of_a_store)))

    def work() -> None:
        while not totals.wrong:
            with totals.lock:
                mine = next(stores, None)
            if mine is None:
                return
            try:
                wrong = torture(rig, mine, cuts_of_a_store, totals)
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


def tell(totals: Totals, seconds: float) -> None:
    losses = ", ".join(f"{totals.by_loss[loss]} {loss}" for loss in LOSSES)
    say(
        f"amnesia: {totals.cuts} power cuts ({losses}; {totals.during_start} during a start) of {totals.stores} stores "
        f"in {seconds:.0f} s; {totals.something_unsynced} when something was not synced, {totals.unsynced} changes; "
        f"{totals.acknowledged} messages acknowledged, {totals.delivered} deliveries, {totals.duplicates} doubled"
    )
    for wrong in totals.wrong:
        say(f"amnesia: BROKEN: {wrong}")


def catches(rig: Rig, name: str, seed: int, workers: int) -> bool:
    """True where a fault that was planted is found."""
    planted = Rig(rig.program, rig.daemon, {**rig.extra, **PLANTED[name]}, rig.folder)
    totals = run(planted, seed, PLANTED_CUTS_MAX, workers, cuts_of_a_store=4)
    # Messages are lost, or the store is: without the fault the same cuts leave both.
    caught = [wrong for wrong in totals.wrong if "lost" in wrong or "drain" in wrong or "by itself with 3" in wrong]
    say(f"amnesia: planted {name}: {f'caught: {caught[0][:160]}' if caught else f'NOT CAUGHT, {totals.wrong}'}")
    return bool(caught)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="amnesia.power_cuts", description=__doc__)
    options.add_argument("--cuts", type=int, default=120)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--workers", type=int, default=2, help="stores that are worked on at once")
    options.add_argument("--program", type=Path, required=True, help="the example `tortured`, with planted faults")
    options.add_argument("--daemon", type=Path, required=True, help="delaymq-amnesia")
    options.add_argument("--planted", action="store_true", help="plant faults, too, each of which must be caught")
    chosen = options.parse_args(arguments)
    refused = not_run("amnesia", (FUSE,))
    if refused is not None:
        return refused
    with tempfile.TemporaryDirectory(prefix="amnesia-", dir=work_folder()) as folder:
        rig = Rig(chosen.program.resolve(), chosen.daemon.resolve(), {}, Path(folder))
        began = time.monotonic()
        totals = run(rig, chosen.seed, chosen.cuts, chosen.workers, CUTS_OF_A_STORE)
        tell(totals, time.monotonic() - began)
        kept = not totals.wrong
        if chosen.planted and kept:
            for name in PLANTED:
                kept = catches(rig, name, chosen.seed, chosen.workers) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
