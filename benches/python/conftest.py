from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from delaymq.store import Durability


@pytest.fixture(params=["os", "disk"])
def durability(request: pytest.FixtureRequest) -> Durability:
    chosen: Durability = request.param
    return chosen


@pytest.fixture
def store(tmp_path: Path, durability: Durability) -> Iterator[delaymq.Store]:
    with delaymq.open(tmp_path / "store", durability=durability) as opened:
        yield opened
