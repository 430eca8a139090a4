from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from faces import Face


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[delaymq.Store]:
    with delaymq.open(folder, durability="os", segment_bytes=1 << 20) as opened:
        yield opened


@pytest.fixture(params=Face.NAMES)
def face(folder: Path, request: pytest.FixtureRequest) -> Iterator[Face]:
    opened = Face(folder, request.param)
    yield opened
    opened.close()
