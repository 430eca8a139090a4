"""One server for all tests that leave it as it was, and names that no other test uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from qmq_client.bodies import Consumer
from qmq_client.connection import Connection
from qmq_served.serving import QmqServed

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QmqServed]:
    with QmqServed(tmp_path_factory.mktemp("qmq") / "store") as server:
        yield server


@pytest.fixture
def client(served: QmqServed) -> Iterator[Connection]:
    with served.connected() as connection:
        yield connection


@pytest.fixture
def subject() -> str:
    return f"subject.{next(NUMBERS)}"


@pytest.fixture
def consumer(subject: str) -> Consumer:
    return Consumer(subject, "group", "host@@one")
