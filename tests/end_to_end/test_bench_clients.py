"""The bench of clients: its limits have the bytes of the client, and its processes begin and end together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from delaymq.bench.cases.clients import ANSWER_HEAD_BYTES, RECEIPT_BYTES
from delaymq.bench.cases.loopback import numbers_of
from delaymq.bench.publisher import BODIES, DUE, FIRST_DUE
from delaymq.bench.publishers import BATCH, BODY, SUBJECT, Orders, published
from delaymq.bench.rust import beside, relay_port
from delaymq.client.threads.client import Client, connect
from delaymq.message import Publish
from end_to_end.test_command import BENCH_TIMEOUT, rows_of
from proxies import HEAD, PUBLISH, Relay
from serving import serving


def one(client: Client) -> object:
    return client.publish(SUBJECT, BODY, at=FIRST_DUE)


def rows(client: Client) -> object:
    return client.publish_many([Publish(SUBJECT, body, at=due) for body, due in zip(BODIES, DUE, strict=True)])


def columns(client: Client) -> object:
    return client.publish_many(SUBJECT, BODIES, at=DUE)


@pytest.mark.parametrize(("publish", "batch"), [(one, 1), (rows, BATCH), (columns, BATCH)])
def test_a_limit_sends_and_reads_as_many_bytes_as_a_client(
    publish: Callable[[Client], object], batch: int, tmp_path: Path
) -> None:
    with serving(tmp_path / "store") as server:
        relay = Relay(server.url)
        with connect(relay.url) as client:
            publish(client)
        relay.close()
        [request] = [whole for command, whole in relay.asked if command == PUBLISH]
        with server.connect() as peer:
            code, answer = peer.ask(PUBLISH, request[HEAD.size :])
    assert code == 0
    assert len(request) == numbers_of(batch, "disk", batch)["frame_bytes"]
    assert HEAD.size + len(answer) == ANSWER_HEAD_BYTES + batch * RECEIPT_BYTES


@pytest.mark.parametrize(("call", "processes", "workers"), [("plain", 3, 2), ("plain_coroutines", 1, 5)])
def test_processes_that_end_before_the_others_do_not_end_the_relay(
    call: str, processes: int, workers: int, tmp_path: Path
) -> None:
    connections = processes * workers if call == "plain" else 1
    calls = 200
    numbers = numbers_of(calls * processes, "os", 1, connections=connections)
    with beside(tmp_path, {"relay_limit": numbers}) as found:
        sizes = {"frame_bytes": int(numbers["frame_bytes"]), "answer_bytes": int(numbers["answer_bytes"])}
        assert published(Orders(call, relay_port(tmp_path), workers, calls, **sizes), processes) > 0
    assert found["relay_limit"] == {"value": 0}


def test_a_process_that_cannot_connect_is_said(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server:
        port = int(server.address.rpartition(":")[2])
    with pytest.raises(RuntimeError, match="a process for 'one' did not start"):
        published(Orders("one", port, 1, 1), 2)


def test_a_process_that_loses_its_relay_is_said(tmp_path: Path) -> None:
    numbers = numbers_of(1, "os", 1, connections=1)
    with beside(tmp_path, {"relay_limit": numbers}):
        orders = Orders("plain", relay_port(tmp_path), 1, 2, int(numbers["frame_bytes"]), 16)
        with pytest.raises(RuntimeError, match="a process for 'plain' did not end well"):
            published(orders, 1)


@pytest.mark.slow
@BENCH_TIMEOUT
def test_each_way_and_what_idle_clients_cost_is_told(tmp_path: Path) -> None:
    found = {row["detail"]["call"]: row for row in rows_of("clients", folder=tmp_path)}
    ways = ["one thread", "64 threads", "64 coroutines", "rows", "columns", "one by one", "batches", "idle"]
    assert list(found) == ways
    assert [row["detail"].get("processes") for row in found.values()] == [1, 2, 1, 1, 1, None, None, None]
    idle = found["idle"]["detail"]
    assert idle["threads"] >= 0 <= idle["processor_us_per_s"]
    assert found["idle"]["unit"] == "bytes"
