"""Power cuts of `delaymq serve` on a disk that forgets: clients over TCP, and their ledger."""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from amnesia.filesystem import LOSSES, FileSystem
from amnesia.totals import Totals
from power_cuts.served import CLOCKS_MS, IN_FLIGHT, START_SECONDS, Life, drained
from power_cuts.telling import Ledger

CALLS_MAX = 120
"""That change something on the disk, before its power is cut in the middle of one."""
STARTS_CALLS_MAX = 25
STARTS = 0.2
WITHIN_MS = 3000
LAST_WORDS_S = 0.02


@dataclass(frozen=True)
class Cut:
    """Which call is its last, what it loses, and whether it counts from the start of the process on."""

    calls: int
    loss: str
    grain: int
    starts: bool

    @classmethod
    def of(cls, chance: random.Random, life: int) -> Cut:
        # A first life is not cut while it opens: a ledger that saw nothing cannot be judged.
        starts = life > 1 and chance.random() < STARTS
        most = STARTS_CALLS_MAX if starts else CALLS_MAX
        return cls(chance.randint(0, most), chance.choice(LOSSES), chance.getrandbits(63), starts)

    @property
    def coming(self) -> str:
        return f"cut-at {self.calls} {self.loss} {self.grain}"


@dataclass(frozen=True)
class Rig:
    """What each store is served with."""

    daemon: Path
    folder: Path
    cuts_of_a_store: int
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment of those lives that are cut: what is planted in them."""

    def torture(self, seed: int, totals: Totals) -> list[str]:
        """One store from its making to its drain; what is wrong with it."""
        chance, path = random.Random(f"served {seed}"), self.folder / f"served-{seed}.ledger"
        what = f"served store, seed {seed}"
        with closing(Ledger(path, "amnesia, served", seed, {"cuts": self.cuts_of_a_store})) as ledger:
            with FileSystem(self.daemon, self.folder / f"served-disk-{seed}") as disk:
                store = disk.place / "store"
                for count in range(1, self.cuts_of_a_store + 1):
                    cut = Cut.of(chance, count)
                    if cut.starts:
                        disk.tell(cut.coming)
                    if wrong := live(disk, Life(ledger, store, count, seed, self.variables), cut, totals):
                        return [f"{what}, life {count}: {wrong}"]
                if wrong := drained(ledger, store, self.cuts_of_a_store + 1, seed):
                    return [f"{what}: the drain ended with {wrong}"]
            ledger.tell("drained")
        return totals.judge(what, path, CLOCKS_MS)


def live(disk: FileSystem, life: Life, cut: Cut, totals: Totals) -> str:
    """Serves until the power is cut; what is wrong."""
    try:
        begun = await_serving(disk, life, cut)
        ended = life.process.poll()
        answer = disk.tell(f"await {WITHIN_MS}") if begun and ended is None else {"cut": 0}
        if not answer["cut"]:
            answer = disk.tell(f"cut {cut.loss} {cut.grain}")
        # Nobody hears from the disk any more: whatever is answered now was durable before.
        time.sleep(LAST_WORDS_S)
        ended = life.process.poll()
        with life.ledger.lock:
            life.is_cut = True
            life.process.kill()
    except BaseException:
        life.process.kill()
        raise
    # What waits for the disk dies only once that is gone.
    disk.tell("remount")
    _, said = life.end()
    life.ledger.tell("stop", cause="cut", in_flight_max=IN_FLIGHT)
    totals.cut(cut.loss, answer["pending"], during_start=cut.starts)
    return "" if begun and ended is None and not life.failed else f"{ended} before the cut: {life.failed} {said}"


def await_serving(disk: FileSystem, life: Life, cut: Cut) -> bool:
    """Begins to work once it serves; False where it neither does nor loses its power."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and life.process.poll() is None:
        if life.await_address(0.01):
            life.begin(life.produce, life.consume)
            if not cut.starts:
                disk.tell(cut.coming)
            return True
        if cut.starts and disk.tell("await 0")["cut"]:
            return True
    return False
