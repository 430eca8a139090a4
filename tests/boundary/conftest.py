from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
import faces
import serving
from boundary.remote import FACES, Remote
from faces import Face, Served
from proxies import Relay


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(params=[False, True], ids=["store", "client"])
def over_tcp(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test opens is a store, and then a client of one that is served."""
    with faces.over_tcp(request.param):
        yield


@pytest.fixture(params=[False, True], ids=["store", "client"])
def store(folder: Path, request: pytest.FixtureRequest) -> Iterator[delaymq.Store]:
    """As `over_tcp`, for who needs one only."""
    with faces.over_tcp(request.param), faces.opened(folder) as opened:
        yield opened


@pytest.fixture(params=Face.NAMES)
def face(folder: Path, request: pytest.FixtureRequest) -> Iterator[Face]:
    opened = Face(folder, request.param)
    yield opened
    opened.close()


@pytest.fixture(params=FACES)
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    driven = Remote(request.param)
    yield driven
    driven.close()


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    found = Served(folder)
    yield found
    found.close()


@pytest.fixture
def process(folder: Path) -> Iterator[serving.Served]:
    """A server that can be killed, and comes back at its port."""
    with delaymq.open(folder, segment_bytes=4 << 20):
        pass
    with serving.serving(folder) as found:
        yield found


@pytest.fixture
def relay(served: Served) -> Iterator[Relay]:
    found = Relay(served.url)
    yield found
    found.close()
