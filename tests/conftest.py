"""Which tests stay together where several processes share them, and which have processes that are not counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commanding import uncounted

# One Java machine serves all of these; each process that had some of them would start another.
TOGETHER = ("spark", "java_client")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = next((name for name in TOGETHER if name in item.path.parts), None)
        item.add_marker(pytest.mark.xdist_group(folder or str(item.path.relative_to(Path(__file__).parent))))


@pytest.fixture
def uncounted_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of processes of this test are not counted, since a signal's handler raises in them: where that is in
    the midst of what counts, its lock stays taken, and every thread of the process waits for it.
    """
    for name in os.environ.keys() - uncounted().keys():
        monkeypatch.delenv(name)
