"""`python -m torture`: tortures stores, several at once, and has the checker judge each ledger.

Prints a line for each store and at the end a JSON object. Exits with 1 where a promise was broken, a ledger could
not be judged, a failpoint was never reached, or a fault that was planted stayed unseen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from torture.kills import failpoints
from torture.run import Outcome, Places, Run, Totals, tortured
from torture.store import ONLY_SERVED

# About as long for each of them, so that no store is left to end alone.
KILLS_OF_DRIVEN, KILLS_OF_SERVED, KILLS_OF_RELEASE = 30, 14, 10
# Their lives are mostly waiting, for a moment or at a failpoint.
STORES_OF_A_CORE = 4
# Through which a fault must be seen, and how often such a store is killed.
FAULTS = {
    "AnswerBeforeVisible": ("served", 8),
    "AcknowledgedUnwritten": ("driven", 30),
    "AcknowledgementsForgotten": ("driven", 10),
    "ReplacedStays": ("driven", 10),
    "IdsNotSaved": ("driven", 20),
    "RecurringNotSaved": ("driven", 20),
}
# How many are tried before it counts as unseen: few stores at once leave a kill little time between a false answer and
# the write behind it, and half of them do not meet it.
STORES_OF_A_FAULT = 12
TRIES = 4
# With so many kills each failpoint is to be reached.
KILLS_FOR_ALL = 300
KILLS_OF_ONE = 4
UNREACHED_MAX = 3  # on a busy machine the log hardly falls idle, so that no witness is written


def plan(kills: int, chance: random.Random, places: int) -> list[Run]:
    """Stores and how often each is killed: two of six by the release, one of them with what faults can be planted
    in, the others by the program on the engine."""
    runs: list[Run] = []
    left, first = kills, chance.randrange(places)
    while left > 0:
        turn = len(runs) % 6
        by = "served" if turn in (0, 1, 4) else "driven"
        is_planted = turn != 0
        most = KILLS_OF_DRIVEN if by == "driven" else KILLS_OF_SERVED if is_planted else KILLS_OF_RELEASE
        durability = "os" if turn in (3, 4) else "disk"
        runs.append(Run(by, min(left, most), chance.getrandbits(32), durability, first % places, is_planted))
        first += most * 2 // 3 if is_planted else 0
        left -= most
    return runs


class Torture:
    """All that is tried in one call."""

    def __init__(self, places: Places, at_once: int, *, keeps: bool) -> None:
        self.places = places
        self.at_once = at_once
        self.keeps = keeps
        self.totals = Totals()

    def stores(self, runs: list[Run]) -> bool:
        """Tortures them; True where all are clean."""
        with ThreadPoolExecutor(self.at_once) as pool:
            for future in as_completed([pool.submit(self.one, run) for run in runs]):
                outcome = future.result()
                self.totals.add(outcome)
                print(outcome.told(), flush=True)
                if outcome.verdict != "clean":
                    print(outcome.error, flush=True)
        return set(self.totals.verdicts) == {"clean"}

    def unreached(self) -> list[str]:
        """Failpoints that nothing was killed at so far."""
        return [name for name in failpoints() if not self.totals.failpoints[name]]

    def all_failpoints(self, chance: random.Random) -> bool:
        """Kills at those that chance has left out, and nowhere else; True where all stores are clean."""
        is_clean = True
        for _ in range(TRIES):
            runs = [self.only_at(name, chance.getrandbits(32)) for name in self.unreached()]
            if not runs or not is_clean:
                break
            is_clean = self.stores(runs)
        return is_clean

    @staticmethod
    def only_at(name: str, seed: int) -> Run:
        """A store of its own, that is killed at this failpoint."""
        by = "served" if name in ONLY_SERVED else "driven"
        return Run(by, KILLS_OF_ONE, seed, "disk", 0, is_planted=True, only=(name,))

    def one(self, run: Run) -> Outcome:
        return tortured(run, self.places, keeps=self.keeps)

    def faults(self, chance: random.Random) -> dict[str, str]:
        """Whether each fault that can be planted is seen, and by what."""
        with ThreadPoolExecutor(self.at_once) as pool:
            seen = {fault: pool.submit(self.fault, fault, chance.getrandbits(32)) for fault in FAULTS}
            return {fault: future.result() for fault, future in seen.items()}

    def fault(self, fault: str, seed: int) -> str:
        by, kills = FAULTS[fault]
        for place in range(STORES_OF_A_FAULT):
            outcome = self.one(Run(by, kills, seed + place, "disk", 0, is_planted=True, fault=fault))
            found = [name for name, count in outcome.judged.get("findings", {}).items() if count]
            print(f"planted {fault}: {outcome.told()}", flush=True)
            if found:
                return f"{', '.join(found)} (store {place + 1} of {kills} kills)"
        return "unseen"


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="torture")
    options.add_argument("--kills", type=int, default=320)
    options.add_argument("--minutes", type=float, help="goes on with new stores as long as this")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options.add_argument("--at-once", type=int, default=STORES_OF_A_CORE * (os.cpu_count() or 1), help="stores")
    options.add_argument("--program", required=True, help="the program on the engine, built with faults to plant")
    options.add_argument("--packages", required=True, help="a folder with a delaymq in which faults can be planted")
    options.add_argument("--ledgers", type=Path, help="a folder on another file system than that of the stores")
    options.add_argument("--keep", action="store_true", help="keeps the ledgers of clean stores too")
    options.add_argument("--summary", type=Path, help="writes the JSON object into this file, too")
    chosen = options.parse_args(arguments)
    print(f"torture: seed {chosen.seed}", flush=True)
    ledgers = chosen.ledgers or Path(tempfile.mkdtemp(prefix="delaymq-ledgers-", dir=memory()))
    ledgers.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="delaymq-torture-") as stores:
        if ledgers.stat().st_dev == Path(stores).stat().st_dev:
            print(f"torture: the ledgers in {ledgers} are on the file system of the stores: --ledgers= says where else")
        places = Places(
            Path(stores), ledgers, str(Path(chosen.program).resolve()), str(Path(chosen.packages).resolve())
        )
        torture = Torture(places, chosen.at_once, keeps=chosen.keep)
        chance, places_of_failpoints = random.Random(chosen.seed), len(failpoints())
        began = time.monotonic()
        is_clean = torture.stores(plan(chosen.kills, chance, places_of_failpoints))
        while is_clean and chosen.minutes and time.monotonic() - began < 60 * chosen.minutes:
            is_clean = torture.stores(plan(chosen.kills, chance, places_of_failpoints))
        if chosen.kills >= KILLS_FOR_ALL:
            is_clean = is_clean and torture.all_failpoints(chance)
        seconds = time.monotonic() - began
        faults = torture.faults(chance)
    unreached = torture.unreached()
    summary = json.dumps(torture.totals.as_json(seconds, chosen.at_once, unreached, faults))
    print(summary)
    if chosen.summary:
        chosen.summary.write_text(summary + "\n", encoding="utf-8")
    is_missed = len(unreached) > UNREACHED_MAX and chosen.kills >= KILLS_FOR_ALL
    if unreached and chosen.kills >= KILLS_FOR_ALL:
        print(f"never reached: {', '.join(unreached)}")
    if not is_clean or is_missed or "unseen" in faults.values():
        return 1
    return 0


def memory() -> Path | None:
    """A file system in memory, where there is one."""
    return next((folder for folder in (Path("/dev/shm"),) if folder.is_dir()), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
