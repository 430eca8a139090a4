from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession as RemoteSession

import delaymq
from commanding import uncounted
from delaymq import Publish
from delaymq.spark import local_session, register
from java import QUICK_JAVA, quick_spark, require_java_here
from ports import lone_port
from spark.engines import Engine

CONNECT = "org.apache.spark.sql.connect.SparkConnectPlugin"
QUICK = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.plugins": CONNECT,
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


# The first test of a session pays for its start, on a slow machine more than others take in all. Which one is the first
# depends on what was chosen, so all of this folder may take so long, but those that say so themselves.
TIMEOUT_SECONDS = 300
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # those of other folders, too
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(autouse=True)
def in_one_process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where several processes share the tests, one has those of `jobs`, and one the others: each starts one Java."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        group = "jobs" if request.path.is_relative_to(HERE / "jobs") else "others"
        whose = tmp_path_factory.getbasetemp().parent / f"java-of-spark-{group}"
        with contextlib.suppress(FileExistsError), whose.open("x") as file:
            file.write(worker)
        assert whose.read_text() == worker, f"tests of Spark ({group}) are in two processes"


@pytest.fixture(scope="package")
def connect_port() -> int:
    """Where the session of all tests listens for Spark Connect."""
    return lone_port()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory, connect_port: int) -> Iterator[Any]:
    """One session for all tests of a process, which runs a task that fails up to four times, as a cluster does."""
    require_java_here()
    folder = tmp_path_factory.mktemp("spark")
    places = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.connect.grpc.binding.port": str(connect_port),
    }
    settings = {name.replace(".", "__"): value for name, value in {**QUICK, **places}.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_spark(HERE.parent).items():  # workers import what a test hands them by its name
            patch.setenv(name, value)
        for name in os.environ.keys() - uncounted().keys():  # its workers end without a word of their lines
            patch.delenv(name)
        session = local_session("local[2,4]", **settings)
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="package")
def connected(spark: Any, connect_port: int) -> str:
    """The address of a server of Spark Connect: that of the session above."""
    assert spark.version
    return f"sc://127.0.0.1:{connect_port}"


@pytest.fixture(scope="package")
def sail() -> Iterator[Any]:
    """The same by another engine, which needs no Java."""
    os.environ.setdefault("RUST_LOG", "error")  # it would tell of each session
    server_of = pytest.importorskip("pysail.spark").SparkConnectServer
    server = server_of("127.0.0.1", 0)
    server.start()
    host, port = server.listening_address
    session: Any = RemoteSession.builder.remote(f"sc://{host}:{port}").create()
    register(session)
    yield session
    # The server goes with all that it has; where it was quiet for minutes it answers no release, and is asked again.
    session.release_session_on_close = False
    session.stop()
    server.stop()


@pytest.fixture(params=["spark", "sail"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each of the engines that the batch part of the source runs on."""
    session = request.getfixturevalue(request.param)
    return Engine(session, UTC if request.param == "sail" else None)


SUBJECTS = ("orders", "reminders", "settlements")
MESSAGES = 3000
HOUR_SECONDS = 3600


@pytest.fixture(scope="package")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments: due now and later, with tags, attributes and keys; some moved, some cancelled.

    What is due later is due behind all tests, however slow they are: a test that opens the store would hand it on.
    """
    path = tmp_path_factory.mktemp("stores") / "filled"
    with delaymq.open(path, durability="os", segment_bytes=1 << 20) as store:
        receipts: list[delaymq.Receipt] = []
        for first in range(0, MESSAGES, 500):
            batch = [
                Publish(
                    SUBJECTS[number % 3],
                    b"%05d" % number * (number % 200),
                    delay=(number % 4) * 6 * HOUR_SECONDS,
                    tags=("a", "b")[: number % 3],
                    attributes={"number": str(number)} if number % 5 == 0 else None,
                )
                for number in range(first, first + 500)
            ]
            receipts += store.publish_many(batch)
            time.sleep(0.002)  # no two batches are of one millisecond
        store.cancel_many(receipts[3::8])
        store.move_many(receipts[6::16], delay=30 * HOUR_SECONDS)
        store.move_many(receipts[14::16], delay=36 * HOUR_SECONDS)
        store.publish("orders", b"with a key", delay=HOUR_SECONDS, key="order-17")
    return path


@pytest.fixture
def pushing(engine: Engine) -> Iterator[Engine]:
    """Spark has to be told that a source may take filters; Sail hands them over by itself."""
    name = "spark.sql.python.filterPushdown.enabled"
    engine.session.conf.set(name, "true")
    yield engine
    engine.session.conf.unset(name)
