from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import Publish
from delaymq.spark import MissingSpark, local_session, register

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests of this folder."""
    folder = tmp_path_factory.mktemp("spark")
    places = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    settings = {name.replace(".", "__"): value for name, value in {**QUICK, **places}.items()}
    try:
        session = local_session("local[2]", **settings)
    except MissingSpark as missing:
        if os.environ.get("TESTS_OF_JAVA_MUST_RUN"):
            pytest.fail(f"where Java 17 is, .ci/run must not pass over this: {missing}", pytrace=False)
        pytest.skip(str(missing))
    register(session)
    yield session
    session.stop()


SUBJECTS = ("orders", "reminders", "settlements")
MESSAGES = 3000


@pytest.fixture(scope="package")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments: due now and later, with tags, attributes and keys; some moved, some cancelled."""
    path = tmp_path_factory.mktemp("stores") / "filled"
    with delaymq.open(path, durability="os", segment_bytes=1 << 20) as store:
        receipts: list[delaymq.Receipt] = []
        for first in range(0, MESSAGES, 500):
            batch = [
                Publish(
                    SUBJECTS[number % 3],
                    b"%05d" % number * (number % 200),
                    delay=(number % 4) * 600,
                    tags=("a", "b")[: number % 3],
                    attributes={"number": str(number)} if number % 5 == 0 else None,
                )
                for number in range(first, first + 500)
            ]
            receipts += store.publish_many(batch)
        store.cancel_many(receipts[3::8])
        store.move_many(receipts[6::8], delay=3600)
        store.publish("orders", b"with a key", delay=60, key="order-17")
    return path
