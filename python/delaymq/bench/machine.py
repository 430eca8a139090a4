"""The load of the machine during a measurement."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

STAT = Path("/proc/stat")
STATUS = Path("/proc/self/status")
LOADAVG = Path("/proc/loadavg")
IDLE, IOWAIT, STEAL = 3, 4, 7  # columns of the first line of /proc/stat


@dataclass(frozen=True)
class Moment:
    """Processor time so far, of the whole machine and of this process with its children.

    Attributes:
        total: All ticks.
        steal: Ticks that the host gave to other virtual machines.
        used: Ticks that any process used.
        own: Ticks that this process and its finished children used.
    """

    total: int
    steal: int
    used: int
    own: float

    @classmethod
    def now(cls) -> Self:
        """Reads the kernel's counters; zeros if there are none."""
        try:
            ticks = [int(word) for word in STAT.read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:
            return cls(0, 0, 0, 0.0)
        times = os.times()
        own = (times.user + times.system + times.children_user + times.children_system) * os.sysconf("SC_CLK_TCK")
        idle = ticks[IDLE] + ticks[IOWAIT] + ticks[STEAL]
        return cls(sum(ticks), ticks[STEAL], sum(ticks) - idle, own)


def meanwhile(before: Moment, after: Moment) -> dict[str, float]:
    """Shares of all processors between two moments: `steal`, and `others`, used by other processes."""
    total = max(1, after.total - before.total)
    others = max(0.0, (after.used - before.used) - (after.own - before.own))
    found = {"steal": round((after.steal - before.steal) / total, 4), "others": round(others / total, 4)}
    with contextlib.suppress(OSError):
        found["load"] = float(LOADAVG.read_text().split()[0])
    return found


def anonymous_bytes() -> float:
    """Anonymous memory of this process, in bytes; 0 if the kernel does not tell."""
    return _own("RssAnon:") * 1024


def thread_count() -> float:
    """The threads of this process, of Python or not; 0 if the kernel does not tell."""
    return _own("Threads:")


def _own(name: str) -> float:
    with contextlib.suppress(OSError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(name):
                return float(line.split()[1])
    return 0.0
