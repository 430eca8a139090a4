"""Cuts the power of many stores, has what is left judged, and says what came of it.

Exits with 0 where all is as it must be, with 1 where a promise was broken or a planted fault was not found, with 2
where a layer did not run that must (root in `.ci/run`, where loop devices are).
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from power_cuts import equipment, kernel
from power_cuts.cutting import Plan, Round
from power_cuts.faults import FAULTS, SLOW, prove
from power_cuts.filling import all_of
from power_cuts.findings import Found, summary, told
from power_cuts.images import KINDS, Kind
from power_cuts.served import ServedRound

INTERRUPTED_SECONDS = 3
INTERRUPTED = 130


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="power_cuts", description="Power cuts on ext4 and XFS images.")
    parser.add_argument("--program", type=Path, required=True, help="`tortured`, an example of the engine")
    parser.add_argument(
        "--planted-program", type=Path, help="the same with the feature `planted`: its faults must be found"
    )
    parser.add_argument("--cuts", type=int, default=260, help="of the program's stores, both file systems together")
    parser.add_argument("--served-cuts", type=int, default=60, help="of served stores")
    parser.add_argument("--minutes", type=float, default=0, help="goes on for so long, whatever --cuts says")
    parser.add_argument(
        "--images", type=int, default=3, help="of each file system, worked on at once; one on a slow disk"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument(
        "--folder", type=Path, default=Path("/dev/shm"), help="for images and ledgers, in one of its own"
    )
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--faults", nargs="*", default=names, choices=names, help="planted, and to be found")
    parser.add_argument(
        "--filled", action=argparse.BooleanOptionalAction, default=True, help="full disks and quotas, too"
    )
    parser.add_argument("--json", type=Path, help="the summary as a file")
    return parser


class Budget:
    """How many cuts are left, for several threads."""

    def __init__(self, cuts: int, minutes: float) -> None:
        self._lock = threading.Lock()
        self._cuts = cuts
        self._end = time.monotonic() + 60 * minutes if minutes else None

    def takes(self) -> bool:
        """True where one more may be made."""
        if self._end is not None:
            return time.monotonic() < self._end
        with self._lock:
            self._cuts -= 1
            return self._cuts >= 0

    def is_left(self) -> bool:
        return time.monotonic() < self._end if self._end is not None else self._cuts > 0


def main(arguments: list[str]) -> int:
    chosen = options().parse_args(arguments)
    began = time.monotonic()
    found = Found()
    folder = chosen.folder if chosen.folder.is_dir() else Path(tempfile.gettempdir())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="power-cuts-", dir=folder, ignore_cleanup_errors=True) as own:
        kinds = usable(chosen.kinds, found)
        plan = Plan(chosen.program, Path(own), chosen.seed, chosen.planted_program)
        try:
            if kinds:
                cut_all(plan, kinds, found, chosen)
        except KeyboardInterrupt:
            print("power cuts: interrupted")
            kernel.let_go_below(Path(own))
            return INTERRUPTED
        if found.wrong:
            keep(Path(own))
    figures = {"seed": chosen.seed, **summary(found, time.monotonic() - began)}
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(told(figures))
    print(json.dumps(figures))
    for layer, reason in figures["not_run"].items():
        print(f"power cuts: {layer} was not run: {reason}")
    for what in found.wrong:
        print(f"power cuts: {what}")
    if found.is_broken:
        return 1
    return 2 if found.not_run and equipment.must_run() else 0


def usable(names: list[str], found: Found) -> list[Kind]:
    """The file systems that can be cut here; the others are not run."""
    none = equipment.why_none()
    reasons = {name: none or equipment.why_not(KINDS[name]) for name in names}
    found.not_run.update({name: reason for name, reason in reasons.items() if reason})
    return [KINDS[name] for name, reason in reasons.items() if not reason]


def cut_all(plan: Plan, kinds: list[Kind], found: Found, chosen: argparse.Namespace) -> None:
    """Works on all images at once."""
    numbers = count()
    faults = [fault for fault in FAULTS if fault.name in chosen.faults]
    together([partial(prove, fault, kind, plan, numbers, found) for kind in kinds for fault in faults], found)
    budget, served = Budget(chosen.cuts, chosen.minutes), Budget(chosen.served_cuts, chosen.minutes)
    slow = replace(plan, faults=SLOW)
    works = all_of(plan, kinds, numbers, found) if chosen.filled else []
    for kind in kinds:
        for one in (slow, *[plan] * (chosen.images - 1)):
            works.append(partial(rounds, partial(Round, one, kind), numbers, budget, found))
        works.append(partial(rounds, partial(ServedRound, plan, kind), numbers, served, found))
    together(works, found)


class OneRound(Protocol):
    """A store on an image of its own."""

    def run(self, goes_on: Callable[[], bool]) -> bool: ...


def rounds(begin: Callable[[int, Found], OneRound], numbers: Iterator[int], budget: Budget, found: Found) -> None:
    """Rounds on one image after the other, until the budget is used up."""

    def goes_on() -> bool:
        if found.is_interrupted.is_set():
            raise InterruptedError("interrupted")
        return budget.takes()

    while budget.is_left():
        begin(next(numbers), found).run(goes_on)


def together(works: list[Callable[[], None]], found: Found) -> None:
    """Runs each on a thread of its own; one that fails is told, and the others end their rounds."""

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing that it meant to prove is proven
            found.add("failed", repr(error))

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        # Each leaves its image after the cut that it makes; what a slow one leaves goes with this process.
        found.is_interrupted.set()
        end = time.monotonic() + INTERRUPTED_SECONDS
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        raise


def keep(own: Path) -> None:
    """Keeps the ledgers of what went wrong."""
    kept = Path(tempfile.mkdtemp(prefix="power-cuts-kept-"))
    for ledger in own.glob("*.ledger"):
        (kept / ledger.name).write_bytes(ledger.read_bytes())
    print(f"power cuts: the ledgers are in {kept}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
