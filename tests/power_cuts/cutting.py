"""Rounds on one image: a store that is worked on until its power goes, again and again, then drained and judged."""

from __future__ import annotations

import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from power_cuts.findings import Found
from power_cuts.images import Image, Kind, UnmountableError
from power_cuts.telling import Ledger, Program

WORK_MS = (10, 220)
OPENING_MS_MAX = 25
START_SECONDS = 30
ANSWER_SECONDS = 0.3
DRAIN_SECONDS = 90
SUBJECTS, GROUPS, IN_FLIGHT = 2, 2, 64
IN_FLIGHT_SUM = (SUBJECTS + 2) * GROUPS * IN_FLIGHT
ENDS_OF_A_CUT = (4, 5, -signal.SIGBUS, -signal.SIGKILL)
"""Poisoned, refused by the file system, SIGBUS where a mapped segment cannot be read any more, or killed by us."""


@dataclass(frozen=True)
class Plan:
    """What all rounds share."""

    program: Path
    folder: Path
    """Where images and ledgers lie."""
    seed: int
    planted_program: Path | None = None
    """The program with the feature `planted`."""
    cuts_a_round: int = 80
    messages_per_second: int = 600
    far_ms_max: int = 4_000
    faults: tuple[str, ...] = ()
    """Options that make the store or its disk wrong, or its disk slow."""

    def command(self, word: str, store: Path, life: int, seed: int, *more: str) -> list[str]:
        chosen = {
            "--store": store,
            "--life": life,
            "--seed": seed,
            "--subjects": SUBJECTS,
            "--groups": GROUPS,
            "--in-flight": IN_FLIGHT,
            "--messages-per-second": self.messages_per_second,
            "--far-ms-max": self.far_ms_max,
            "--terms": "yes",
        }
        options = [str(part) for pair in chosen.items() for part in pair]
        return [str(self.program), word, *options, *self.faults, *more]


class ImageRound(ABC):
    """A store on an image of its own, and its ledger: it loses its power, again and again, is drained and judged."""

    harness: ClassVar[str]
    first_life: ClassVar[int] = 0
    clocks_ms: ClassVar[int] = 0
    """That the clock of the store and that of the ledger may differ."""

    def __init__(self, plan: Plan, kind: Kind, number: int, found: Found) -> None:
        self.plan, self.kind, self.found = plan, kind, found
        self.number = number
        self.seed = plan.seed * 1_000_003 + number
        self.random = random.Random(self.seed)
        self.name = f"{self.harness}, {kind.name} round {number}, seed {plan.seed}"

    def options(self) -> dict[str, Any]:
        """What the ledger says of how it came to be."""
        return {"image": self.kind.name}

    @abstractmethod
    def cut(self, image: Image, ledger: Ledger, life: int) -> bool:
        """One life: false where its store is in no state to go on."""

    @abstractmethod
    def drain(self, image: Image, ledger: Ledger, life: int) -> bool:
        """The last life, which is not cut: false where it does not come to its end."""

    def run(self, goes_on: Callable[[], bool]) -> bool:
        """Cuts while `goes_on` says so; true where everything was as it must be."""
        path = self.plan.folder / f"{self.harness.replace(' ', '-')}-{self.kind.name}-{self.number}.ledger"
        ledger = Ledger(path, self.harness, self.seed, self.options())
        try:
            with Image(self.kind, self.plan.folder) as image:
                life = self.first_life
                while life < self.first_life + self.plan.cuts_a_round and goes_on():
                    if not self.cut(image, ledger, life):
                        return False
                    life += 1
                if not self.drain(image, ledger, life):
                    return False
            ledger.tell("drained")
        except UnmountableError as error:
            self.found.unmountable(self.kind.name, str(error))
            path.unlink()
            return True
        finally:
            ledger.close()
        is_clean = self.found.judge(path, self.clocks_ms)
        if is_clean:
            path.unlink()
        return is_clean


class Round(ImageRound):
    """Of the program on the engine."""

    harness = "power cuts"

    def __init__(self, plan: Plan, kind: Kind, number: int, found: Found) -> None:
        super().__init__(plan, kind, number, found)
        self.receipts: list[str] = []

    def options(self) -> dict[str, Any]:
        return {**super().options(), "command": self.plan.command("work", Path("store"), 0, self.seed)}

    def cut(self, image: Image, ledger: Ledger, life: int) -> bool:
        chance = self.random
        picked = chance.sample(self.receipts, min(len(self.receipts), chance.randrange(4)))
        self.receipts = [one for one in self.receipts if one not in picked]
        changes = [part for one in picked for part in ("--change", one)]
        store = image.folder / "store"
        program = Program(ledger, self.plan.command("work", store, life, self.seed, *changes))
        if chance.randrange(5) == 0:
            # While it opens: what a first start, a repair or a new epoch has done so far.
            program.read(time.monotonic() + chance.uniform(0, OPENING_MS_MAX) / 1000)
        else:
            self._await_start(program)
            program.read(time.monotonic() + chance.uniform(*WORK_MS) / 1000)
        ended_before = self._cut_off(image, program)
        code = program.end(chance.choice((0.0, 0.05)))
        ledger.tell("stop", cause="cut", in_flight_max=IN_FLIGHT_SUM)
        self.receipts = (self.receipts + program.receipts)[-64:]
        image.restore()
        self.found.cut(self.kind.name)
        self.found.count("restarts")
        if code == -signal.SIGBUS:
            self.found.count("SIGBUS after a cut")
        if ended_before or code not in ENDS_OF_A_CUT:
            when = "before its power went" if ended_before else "after its power went"
            self.found.add("ended", f"{self.name}, life {life}: {code} {when}: {program.cause}")
            return False
        return True

    def _cut_off(self, image: Image, program: Program) -> bool:
        """Cuts, often at an answer: what it promised must be on the disk. True where the program had ended before."""
        if self.random.randrange(3) and program.has_started:
            end = time.monotonic() + ANSWER_SECONDS
            if program.read_until_answered(image.cut, end):
                program.is_cut = True
                return False
        program.read_all()
        ended_before = program.is_over
        program.is_cut = True
        image.cut()
        return ended_before

    @staticmethod
    def _await_start(program: Program) -> None:
        end = time.monotonic() + START_SECONDS
        while not program.has_started and not program.is_over and time.monotonic() < end:
            program.read(time.monotonic() + 0.002)

    def drain(self, image: Image, ledger: Ledger, life: int) -> bool:
        store = image.folder / "store"
        more = ("--verify", "yes", "--drain-seconds", str(DRAIN_SECONDS - 10))
        program = Program(ledger, self.plan.command("drain", store, life, self.seed, *more))
        code = program.end(DRAIN_SECONDS)
        self.found.count("restarts")
        if code != 0:
            self.found.add("undrained", f"{self.name}: {code}: {program.cause}")
        return code == 0
