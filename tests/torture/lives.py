"""One life of a tortured process: it is started, ended as the plan says, and the ledger is told."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from commanding import environment
from torture.kills import FAILPOINT, KILLED_WHILE_STOPPED, MOMENT, STOPPED, Kill
from torture.ledger import Ledger


@dataclass
class Ends:
    """How the lives of a store have ended."""

    causes: Counter[str] = field(default_factory=Counter)
    failpoints: Counter[str] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return sum(count for cause, count in self.causes.items() if cause != STOPPED)


def planted(kill: Kill | None, checkpoint_facts: int | None, fault: str) -> dict[str, str]:
    """The environment of a process that was built with what can be planted."""
    chosen = {"DELAYMQ_PLANTED": fault} if fault else {}
    if kill is not None and kill.cause == FAILPOINT:
        chosen["DELAYMQ_FAILPOINT"] = f"{kill.failpoint}:{kill.count}"
    if checkpoint_facts is not None:
        chosen["DELAYMQ_CHECKPOINT_FACTS"] = str(checkpoint_facts)
    return environment(**chosen)


def end(
    process: subprocess.Popen[Any], kill: Kill, ledger: Ledger, ends: Ends, *, in_flight_max: int, epoch: int
) -> None:
    """Ends it as planned; after this it is gone, or a stop is over and it goes on (until the next call)."""
    if kill.cause == FAILPOINT:
        try:
            process.wait(kill.after_seconds)
            died_there(process, kill, ends)
        except subprocess.TimeoutExpired:
            # It never came there.
            process.kill()
            process.wait()
            ends.causes[MOMENT] += 1
        return
    time.sleep(kill.after_seconds)
    if kill.cause == MOMENT:
        process.kill()
        process.wait()
        ends.causes[MOMENT] += 1
        return
    ledger.tell("stop", cause="stopped", in_flight_max=in_flight_max)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(kill.stopped_seconds)
    if kill.cause == KILLED_WHILE_STOPPED:
        process.kill()
        process.wait()
        ends.causes[KILLED_WHILE_STOPPED] += 1
        return
    ledger.tell("start", epoch=epoch)
    os.kill(process.pid, signal.SIGCONT)
    ends.causes[STOPPED] += 1
    time.sleep(kill.after_seconds)
    process.kill()
    process.wait()
    ends.causes[MOMENT] += 1


def died_there(process: subprocess.Popen[Any], kill: Kill, ends: Ends) -> None:
    """Counts the end of a process that was to kill itself at a failpoint."""
    code = process.wait()
    assert code == -signal.SIGKILL, f"it ended with {code}"
    ends.causes[FAILPOINT] += 1
    ends.failpoints[kill.failpoint] += 1
