"""Failovers of real nodes under load, one after the other: kills, pauses, hand-overs and stops of the primary, kills of
replicas, and of all nodes. `make failovers` does as many as FAILOVERS says.

All that was answered must be delivered, nothing early, and what comes again must be marked.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from groups import Group, Traffic, await_true, in_file, paused, traffic

FAILOVERS_IN_CI = 30
PAUSES_SECONDS = (1, 4, 8)  # below the time after which a primary is replaced, and above
MORE = 20
"""Messages that must be answered and delivered after each failure, before the next."""


class Failures:
    """What happens to one group, and the seconds until a publish was answered after each kill of the primary."""

    def __init__(self, group: Group, flowing: Traffic, chance: random.Random) -> None:
        self.group, self.flowing, self.chance = group, flowing, chance
        self.failovers = 0
        self.done: Counter[str] = Counter()
        self.seconds: list[float] = []

    def fail_once(self) -> None:
        """Does one failure of a kind drawn by chance, and waits until the group is whole again."""
        kinds: list[tuple[int, Callable[[], None]]] = [
            (6, self.kill_primary),
            (1, self.pause_primary),
            (1, self.hand_over),
            (1, self.stop_primary),
            (1, self.kill_replica),
            (1, self.kill_all),
        ]
        [fail] = self.chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        self.done[fail.__name__] += 1
        fail()
        self.flowing.await_more(MORE)
        self.group.await_whole()

    def kill_primary(self) -> None:
        first = self.group.await_primary()
        began = time.monotonic()
        first.kill()
        self._goes_on(began)
        first.start()
        self.failovers += 1

    def pause_primary(self) -> None:
        first = self.group.await_primary()
        with paused(first):
            time.sleep(self.chance.choice(PAUSES_SECONDS))
        self.flowing.await_more(1)
        self.failovers += self.group.await_primary() is not first

    def hand_over(self) -> None:
        first = self.group.await_primary()
        to = self.chance.choice([node for node in self.group.nodes if node is not first])
        ended = self.group.ask(first, "switchover", self.group.status(to)["node"])
        assert ended.returncode == 0, ended.stderr
        await_true(lambda: self.group.primary() is to, "the other node is the primary")
        self.failovers += 1

    def stop_primary(self) -> None:
        first = self.group.await_primary()
        first.stop()
        self.flowing.await_more(1)
        first.start()
        self.failovers += 1

    def kill_replica(self) -> None:
        primary = self.group.await_primary()
        other = self.chance.choice([node for node in self.group.nodes if node is not primary])
        other.kill()
        self.flowing.await_more(1)
        other.start()

    def kill_all(self) -> None:
        for node in self.group.nodes:
            node.kill()
        for node in self.chance.sample(self.group.nodes, len(self.group.nodes)):
            node.start()
        self.failovers += 1

    def _goes_on(self, began: float) -> None:
        answered = len(self.flowing.answered)
        # One more may have been answered before the kill and counted after it.
        await_true(lambda: len(self.flowing.answered) > answered + 1, f"it goes on: {self.flowing}")
        self.seconds.append(time.monotonic() - began)


def run(folder: Path, failovers: int, seed: int) -> Failures:
    """Failures of one group until it has had so many failovers."""
    with Group(folder, in_file(folder)) as group:
        group.start()
        with traffic(group.url) as flowing:
            failures = Failures(group, flowing, random.Random(seed))
            flowing.await_more()
            while failures.failovers < failovers:
                failures.fail_once()
            flowing.end()
            said = group.said()
            assert "panicked" not in said, said
            return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failovers", type=int, default=FAILOVERS_IN_CI)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    print(f"failovers: seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="delaymq-failovers-") as folder:
        failures = run(Path(folder), chosen.failovers, chosen.seed)
    seconds: list[float] = sorted(failures.seconds)
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(failures.done.items()))
    print(
        f"failovers: {failures.failovers} ({kinds}), {len(failures.flowing.answered)} answered, none lost or early, "
        f"{failures.flowing.repeated} came again, marked; "
        f"after a kill answered again within {statistics.median(seconds):.2f} s (median of {len(seconds)}), "
        f"{seconds[-1]:.2f} s at most"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
