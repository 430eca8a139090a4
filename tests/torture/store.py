"""`python -m torture.store`: tortures one store to its end and prints, as JSON, how its lives ended."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from pathlib import Path

from torture import driven, served
from torture.kills import failpoints, kills
from torture.ledger import Ledger

# Failpoints that only a server comes to.
ONLY_SERVED = frozenset({"AnswerBegins"})
LIFE_SECONDS = {"driven": 0.12, "served": 0.25}
PATIENCE_SECONDS = {"driven": 0.6, "served": 0.9}


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="torture.store")
    options.add_argument("--by", choices=sorted(LIFE_SECONDS), required=True)
    options.add_argument("--kills", type=int, required=True)
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--store", type=Path, required=True)
    options.add_argument("--ledger", type=Path, required=True)
    options.add_argument("--durability", choices=("disk", "os"), default="disk")
    options.add_argument("--first", type=int, default=0, help="the place of the first failpoint")
    options.add_argument("--only", default="", help="failpoints with commas between; all kills are at these")
    options.add_argument("--program", default="", help="the program on the engine")
    options.add_argument("--packages", default="", help="a folder with a delaymq in which faults can be planted")
    options.add_argument("--fault", default="", help="the fault to plant")
    chosen = options.parse_args(arguments)
    chance = random.Random(chosen.seed)
    named = failpoints() if chosen.packages or chosen.by == "driven" else []
    if chosen.by == "driven":
        named = [name for name in named if name not in ONLY_SERVED]
    if chosen.only:
        named = chosen.only.split(",")
    times = {"life_seconds": LIFE_SECONDS[chosen.by], "patience_seconds": PATIENCE_SECONDS[chosen.by]}
    ends = list(kills(chance, chosen.kills, named, first=chosen.first, only_there=bool(chosen.only), **times))
    began = time.monotonic()
    with Ledger(chosen.ledger) as ledger:
        told = {name: str(value) for name, value in vars(chosen).items()}
        ledger.tell("run", harness=f"torture, {chosen.by}", seed=chosen.seed, options=told)
        shared = {"durability": chosen.durability, "fault": chosen.fault}
        if chosen.by == "driven":
            how = driven.torture(chosen.store, ledger, ends, chosen.seed, program=chosen.program, **shared)
        else:
            how = served.torture(chosen.store, ledger, ends, chosen.seed, packages=chosen.packages, **shared)
    shutil.rmtree(chosen.store)
    found = {"kills": dict(how.causes), "failpoints": dict(how.failpoints), "seconds": time.monotonic() - began}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
