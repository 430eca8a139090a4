"""Disks that run full, and quotas: publishes are refused, the rest goes on, and publishes resume alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial

from power_cuts import kernel
from power_cuts.cutting import DRAIN_SECONDS, IN_FLIGHT_SUM, Plan
from power_cuts.findings import Found
from power_cuts.images import QUOTA_EXT4, QUOTA_XFS, SMALL_EXT4, XFS, Image, Kind, UnmountableError
from power_cuts.telling import Ledger, Program

LEFT_KIBIBYTES = 512
FULL_SECONDS = 20
RESUME_SECONDS = 20
GOES_ON = 20
"""Deliveries and acknowledgements that must be seen while nothing is published."""
USER = 65_534
QUOTA_KIBIBYTES = 6 * 1024
FILLED = (SMALL_EXT4, XFS)
LIMITED = (QUOTA_EXT4, QUOTA_XFS)


def fill(kind: Kind, plan: Plan, numbers: Iterator[int], found: Found) -> None:
    """A disk that runs full under a store, is freed, and loses its power."""
    with Image(kind, plan.folder) as image:
        filler = image.folder / "filler"
        Filled(f"full {kind.name}", image, plan, next(numbers), found).run(
            lambda: image.fill(LEFT_KIBIBYTES), filler.unlink
        )


def fill_quota(kind: Kind, plan: Plan, numbers: Iterator[int], found: Found) -> None:
    """The same by a quota of a user who is not root."""
    layer = f"quota {kind.name}"
    try:
        image = Image(kind, plan.folder)
    except OSError as error:
        # Another kernel is needed for it: nobody can do anything about that here.
        found.cannot[layer] = f"this kernel mounts no {kind.name} with quotas: {error}"
        return
    with image:
        os.chown(image.folder, USER, USER)
        plan.folder.chmod(0o711)
        Filled(layer, image, plan, next(numbers), found, user=USER).run(
            lambda: kernel.limit_blocks(image.device, USER, QUOTA_KIBIBYTES),
            lambda: kernel.limit_blocks(image.device, USER, 0),
        )


class Filled:
    """One store, whose room is taken and given back."""

    def __init__(
        self, layer: str, image: Image, plan: Plan, number: int, found: Found, *, user: int | None = None
    ) -> None:
        self.layer, self.image, self.plan, self.found, self.user = layer, image, plan, found, user
        self.number = number
        self.seed = plan.seed * 1_000_003 + number

    def run(self, take: Callable[[], object], give: Callable[[], object]) -> None:
        path = self.plan.folder / f"{self.layer.replace(' ', '-')}-{self.number}.ledger"
        ledger = Ledger(path, self.layer, self.seed, {})
        try:
            if not self._works(ledger, take, give):
                return
            program = self._program(ledger, "drain", 2, "--verify", "yes")
            if code := program.end(DRAIN_SECONDS):
                self.found.add("undrained", f"{self.layer}, seed {self.plan.seed}: {code}: {program.cause}")
                return
            ledger.tell("drained")
        except UnmountableError as error:
            self.found.unmountable(self.layer, str(error))
            path.unlink()
            return
        finally:
            ledger.close()
        if self.found.judge(path, 0):
            path.unlink()

    def _program(self, ledger: Ledger, word: str, life: int, *more: str) -> Program:
        command = self.plan.command(word, self.image.folder / "store", life, self.seed, *more)
        return Program(ledger, command, self.user)

    def _works(self, ledger: Ledger, take: Callable[[], object], give: Callable[[], object]) -> bool:
        # What waits is enough to see that deliveries go on for as long as nothing is published.
        program = self._program(ledger, "work", 0, "--delay-ms-max", "4000", "--body-bytes-max", "4000")
        program.read(time.monotonic() + 1.0)
        before = dict(program.counts)
        take()
        refused = self._await(program, "published refused", FULL_SECONDS)
        at_refusal = dict(program.counts)
        went_on = refused and all(
            self._await(program, kind, FULL_SECONDS, at_refusal.get(kind, 0) + GOES_ON)
            for kind in ("delivered", "acknowledged")
        )
        taken = program.counts.get("published acknowledged", 0)
        give()
        resumed = went_on and self._await(program, "published acknowledged", RESUME_SECONDS, taken + GOES_ON)
        code = program.process.poll()
        program.read_all()
        program.is_cut = True
        self.image.cut()
        program.end(0)
        ledger.tell("stop", cause="cut", in_flight_max=IN_FLIGHT_SUM)
        self.image.restore()
        self.found.cut(self.layer)
        self.found.count("restarts", 2)
        self.found.count(f"{self.layer} refused", program.counts.get("published refused", 0))
        if not (refused and went_on and resumed) or code is not None:
            told = f"refused {refused}, went on {went_on}, resumed {resumed}, ended {code} {program.cause}"
            self.found.add("full disk", f"{self.layer}, seed {self.plan.seed}: {told}; {before} {program.counts}")
            return False
        return True

    @staticmethod
    def _await(program: Program, kind: str, seconds: float, count: int = 1) -> bool:
        end = time.monotonic() + seconds
        while program.counts.get(kind, 0) < count and time.monotonic() < end and not program.is_over:
            program.read(time.monotonic() + 0.01)
        return program.counts.get(kind, 0) >= count


def all_of(plan: Plan, kinds: list[Kind], numbers: Iterator[int], found: Found) -> list[Callable[[], None]]:
    """What is to be run where these file systems can be had."""
    names = {kind.name for kind in kinds}
    return [
        partial(work, kind, plan, numbers, found)
        for work, some in ((fill, FILLED), (fill_quota, LIMITED))
        for kind in some
        if kind.name in names
    ]
