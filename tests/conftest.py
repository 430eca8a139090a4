"""Which tests stay together where several processes share them."""

from __future__ import annotations

from pathlib import Path

import pytest

# One Java machine serves all of these; each process that had some of them would start another.
TOGETHER = ("spark", "java_client")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = next((name for name in TOGETHER if name in item.path.parts), None)
        item.add_marker(pytest.mark.xdist_group(folder or str(item.path.relative_to(Path(__file__).parent))))
