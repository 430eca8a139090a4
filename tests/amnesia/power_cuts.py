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
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amnesia.filesystem import FUSE, LOSSES, FileSystem, not_run, say, work_folder
from amnesia.served_cuts import Rig as ServedRig
from amnesia.torturing import CLOCKS_MS, Ledger, Life
from amnesia.totals import SHOWN, Totals, run

CUTS_OF_A_STORE = 15
SERVED_CUTS_OF_A_STORE = 8
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
    "AckBeforeSync": {"--planted": "AckBeforeSync"},
    "FolderNotSynced": {"--planted": "FolderNotSynced"},
}
PLANTED_CUTS_MAX = 120
PLANTED_SERVED = "AckBeforeSync"
SERVED_STORES_MAX = 8


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
            totals.cut(loss, unsynced, during_start=starts)
        wrong = ledger.drain(rig.program, store, rig.extra)
    if wrong:
        return [f"seed {seed}: {wrong}"]
    return totals.judge(f"seed {seed}", path, CLOCKS_MS)


def run_stores(rig: Rig, seed: int, cuts: int, workers: int, cuts_of_a_store: int) -> Totals:
    """So many cuts, by so many stores at a time."""
    seeds = range(seed, seed + -(-cuts // cuts_of_a_store))
    return run(lambda mine, totals: torture(rig, mine, cuts_of_a_store, totals), seeds, workers)


def catches(rig: Rig, name: str, seed: int, workers: int) -> bool:
    """True where a fault that was planted is found."""
    # What the ledger of another run had would make this one's unfit, and an unfit one shows nothing.
    folder = rig.folder / name.replace(" ", "-")
    folder.mkdir()
    planted = Rig(rig.program, rig.daemon, {**rig.extra, **PLANTED[name]}, folder)
    totals = run_stores(planted, seed, PLANTED_CUTS_MAX, workers, cuts_of_a_store=4)
    caught = [wrong for wrong in totals.wrong if SHOWN.search(wrong)]
    say(f"amnesia: planted {name}: {f'caught: {caught[0][:160]}' if caught else f'NOT CAUGHT, {totals.wrong}'}")
    return bool(caught)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="amnesia.power_cuts", description=__doc__)
    options.add_argument("--cuts", type=int, default=120)
    options.add_argument("--served-cuts", type=int, default=0, help="of stores that `delaymq serve` has open")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--workers", type=int, default=2, help="stores that are worked on at once")
    options.add_argument("--program", type=Path, required=True, help="the example `tortured`, with planted faults")
    options.add_argument("--daemon", type=Path, required=True, help="delaymq-amnesia")
    options.add_argument("--packages", type=Path, help="a folder with a delaymq in which faults can be planted")
    options.add_argument("--planted", action="store_true", help="plant faults, too, each of which must be caught")
    chosen = options.parse_args(arguments)
    refused = not_run("amnesia", (FUSE,))
    if refused is not None:
        return refused
    with tempfile.TemporaryDirectory(prefix="amnesia-", dir=work_folder()) as folder:
        rig = Rig(chosen.program.resolve(), chosen.daemon.resolve(), {}, Path(folder))
        began = time.monotonic()
        totals = run_stores(rig, chosen.seed, chosen.cuts, chosen.workers, CUTS_OF_A_STORE)
        totals.tell("stores", time.monotonic() - began)
        kept = not totals.wrong
        if chosen.served_cuts and kept:
            kept = cuts_served(rig, chosen)
        if chosen.planted and kept:
            for name in PLANTED:
                kept = catches(rig, name, chosen.seed, chosen.workers) and kept
            if chosen.packages is not None:
                kept = catches_served(rig, chosen) and kept
    return 0 if kept else 1


def cuts_served(rig: Rig, chosen: argparse.Namespace) -> bool:
    """The same of stores that are served; true where no promise was broken."""
    began, served = time.monotonic(), ServedRig(rig.daemon, rig.folder, SERVED_CUTS_OF_A_STORE)
    stores = -(-chosen.served_cuts // SERVED_CUTS_OF_A_STORE)
    totals = run(served.torture, range(chosen.seed, chosen.seed + stores), chosen.workers)
    totals.tell("served stores", time.monotonic() - began)
    return not totals.wrong


def catches_served(rig: Rig, chosen: argparse.Namespace) -> bool:
    """True where a fault that was planted into a server is found."""
    folder = rig.folder / "served"
    folder.mkdir()
    variables = {"PYTHONPATH": str(chosen.packages.resolve()), "DELAYMQ_PLANTED": PLANTED_SERVED}
    faulty = ServedRig(rig.daemon, folder, SERVED_CUTS_OF_A_STORE, variables)
    totals = run(faulty.torture, range(chosen.seed, chosen.seed + SERVED_STORES_MAX), chosen.workers)
    caught = [wrong for wrong in totals.wrong if SHOWN.search(wrong)]
    told = f"caught: {caught[0][:160]}" if caught else f"NOT CAUGHT, {totals.wrong}"
    say(f"amnesia: planted {PLANTED_SERVED} in a server: {told}")
    return bool(caught)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
