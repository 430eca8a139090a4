"""Which tests stay together where several processes share them, which have processes that are not counted, and how long
each folder takes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from commanding import uncounted

# One Java machine serves all of these; each process that had some of them would start another.
TOGETHER = ("spark", "java_client")
SAID_FROM_SECONDS = 60
"""What takes less says nothing of its minutes."""


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = next((name for name in TOGETHER if name in item.path.parts), None)
        item.add_marker(pytest.mark.xdist_group(folder or str(item.path.relative_to(Path(__file__).parent))))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how long the tests of each folder took, so that what outgrows its share is seen: those of Spark may take six
    minutes.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = Path(report.nodeid.partition("::")[0].removeprefix("tests/"))
                seconds[file.parts[0] if len(file.parts) > 1 else "tests"] += report.duration
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
