from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import delaymq
from faces import Face, Served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(params=["plain", "client"])
def store(folder: Path, request: pytest.FixtureRequest) -> Iterator[delaymq.Store]:
    """A store, or a client of a server over it, which has the same face but for what speaks of a folder."""
    if request.param == "plain":
        with delaymq.open(folder, durability="os", segment_bytes=1 << 20) as opened:
            yield opened
        return
    served = Served(folder, segment_bytes=1 << 20)
    with delaymq.connect(served.url) as connected:
        yield cast("delaymq.Store", connected)
    served.close()


@pytest.fixture(params=Face.NAMES)
def face(folder: Path, request: pytest.FixtureRequest) -> Iterator[Face]:
    opened = Face(folder, request.param)
    yield opened
    opened.close()
