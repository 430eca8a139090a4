"""A group whose nodes are well, on a busy machine: no node takes over from another. MINUTES is its length.

Each processor computes for nine tenths of the time. Every few seconds a process of a node stands still for 2 s. That is
less than the 3 s after which a primary is replaced.

The primary and its epoch must be the same at the end, all that was answered must be delivered, and nothing early.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groups import Group, Traffic, in_file, paused, traffic
from serving import Served

BUSY_SECONDS, IDLE_SECONDS = 0.09, 0.01
PAUSE_SECONDS = 2.0
BETWEEN_PAUSES_SECONDS = (5.0, 20.0)
REST_SECONDS = 0.01
"""Between two publishes, so that hours of them fit into the memory of the client."""


def compute(until: float) -> None:
    """Computes for nine tenths of the time."""
    while time.monotonic() < until:
        end = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < end:
            sum(range(1_000))
        time.sleep(IDLE_SECONDS)


@contextmanager
def busy_processors(until: float, count: int) -> Iterator[None]:
    """Keeps so many processors busy, at most until this time of the monotonic clock."""
    make = multiprocessing.get_context("spawn").Process
    computing = [make(target=compute, args=(until,), daemon=True) for _ in range(count)]
    for process in computing:
        process.start()
    try:
        yield
    finally:
        for process in computing:
            process.terminate()
            process.join()


def processor_share(before: list[int], after: list[int]) -> float:
    """The share of the time that processors were busy between two readings of /proc/stat."""
    used = [late - early for early, late in zip(before, after, strict=True)]
    return 1 - (used[3] + used[4]) / sum(used)


def processor_ticks() -> list[int]:
    """The ticks of all processors, by what they did: the fourth and the fifth number are idle."""
    return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


class Watch:
    """The primary and the epoch of a group, which must not change."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.primary = group.await_primary()
        self.epoch = self._epoch()

    def _epoch(self) -> int:
        return int(self.group.status(self.primary)["epoch"])

    def judge(self) -> None:
        status = self.group.status(self.primary)
        assert (status["role"], status["epoch"]) == ("primary", self.epoch), f"a false failover: {self.group.said()}"


def pause_by_chance(group: Group, flowing: Traffic, minutes: float, chance: random.Random) -> Counter[str]:
    """Pauses one node after the other until the minutes are over. Returns how often each kind stood still."""
    watch, done = Watch(group), Counter[str]()
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        node: Served = chance.choice(group.nodes)
        done["primary" if node is watch.primary else "replica"] += 1
        with paused(node):
            time.sleep(PAUSE_SECONDS)
        flowing.await_more(1)
        watch.judge()
        time.sleep(chance.uniform(*BETWEEN_PAUSES_SECONDS))
    group.await_whole()
    watch.judge()
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that compute; 0 on a busy machine")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    print(f"steadiness: seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="delaymq-steadiness-") as name:
        folder = Path(name)
        with Group(folder, in_file(folder)) as group:
            group.start()
            until = time.monotonic() + (chosen.minutes + 10) * 60
            with busy_processors(until, chosen.processes), traffic(group.url, rest_seconds=REST_SECONDS) as flowing:
                flowing.await_more()
                before = processor_ticks()
                done = pause_by_chance(group, flowing, chosen.minutes, random.Random(chosen.seed))
                busy = processor_share(before, processor_ticks())
                flowing.end()
                assert "panicked" not in group.said()
    print(
        f"steadiness: no failover in {chosen.minutes:g} minutes, processors busy for {busy:.0%}, pauses of "
        f"{PAUSE_SECONDS:g} s: {done['primary']} of the primary, {done['replica']} of replicas; "
        f"{len(flowing.answered)} answered, none lost or early, {flowing.repeated} came again, marked"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
