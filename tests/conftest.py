"""Which tests stay together where several processes share them, which have processes that are not counted, and how long
each folder takes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from commanding import uncounted

# One Java machine serves all tests of each of the first three, and one list of crates those of the last; each process
# that had some of them would start another Java machine, or make another list.
TOGETHER = ("spark/jobs", "spark", "java_client", "test_supply_chain.py")
HERE = Path(__file__).parent
SAID_FROM_SECONDS = 60
"""What takes less says nothing of its minutes."""


def heed_signals() -> None:
    """Signals that a shell has its background jobs ignore, and `nohup`, have the dispositions of a foreground process
    again: here, and in all processes that the tests start, which inherit what is ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


heed_signals()


def group_of(nodeid: str) -> str:
    """The tests that one process has: those of a folder or a file of `TOGETHER`, or else one. By files, the last one
    would have some that are few and wait for long, and the others nothing.
    """
    file = f"/{nodeid.partition('::')[0]}/"
    return next((name for name in TOGETHER if f"/{name}/" in file), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups go as a whole to the processes that share the tests, the largest first. By name and not by marks: those
    of `--dist loadgroup` do nothing under pytest 9.2 (pytest-xdist issue 1386), and nothing says so.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - who has one process needs no such package

    class InGroups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return InGroups(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says how long the tests of each folder took, so that what outgrows its share is seen: those of Spark may take six
    minutes.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = config.rootpath / report.nodeid.partition("::")[0]
                folder = file.relative_to(HERE).parts[0] if file.is_relative_to(HERE) else "others"
                seconds[folder] += report.duration
    if sum(seconds.values()) >= SAID_FROM_SECONDS:
        slowest = sorted(seconds.items(), key=lambda one: -one[1])
        words = ", ".join(f"{folder} {taken / 60:.1f}" for folder, taken in slowest)
        terminalreporter.write_line(f"minutes of tests, one after the other: {words}")


@pytest.fixture
def uncounted_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of processes of this test are not counted, since a signal's handler raises in them: where that is in
    the midst of what counts, its lock stays taken, and every thread of the process waits for it.
    """
    for name in os.environ.keys() - uncounted().keys():
        monkeypatch.delenv(name)
