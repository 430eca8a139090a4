"""A client that knows several nodes: it goes over to another one, and follows a node that is not the primary."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import delaymq
import serving
from boundary.remote import FACES, Remote
from delaymq import AmbiguousError, NotPrimary, Unreachable
from delaymq.client import options
from faces import Served
from ports import lone_port
from proxies import HELLO, NOT_PRIMARY, PUBLISH, Relay, answer, frames, hello_answer, not_primary_body, played

COUNT = 300
PATIENCE_S = 60
# What was acknowledged just before a kill came again, and the end says so.
MAY_COME_AGAIN = contextlib.suppress(AmbiguousError)


def together(*urls: str) -> str:
    return "delaymq://" + ",".join(url.removeprefix("delaymq://") for url in urls)


def nowhere() -> str:
    return f"delaymq://127.0.0.1:{lone_port()}"


def test_any_node_that_answers_will_do(remote: Remote, served: Served) -> None:
    url = together(nowhere(), served.url, nowhere())
    with remote.connected(url) as client:
        remote.call(lambda: client.publish("a", b"1", delay=3600))
        assert client.url == url
    assert served.store.status().pending == 1


def test_where_no_node_answers_it_is_said_at_once(remote: Remote) -> None:
    last = nowhere()
    with pytest.raises(Unreachable, match=f"no server answers at {last}: ") as caught:
        remote.connect(together(nowhere(), last))
    assert type(caught.value) is Unreachable


def test_a_node_that_says_nothing_is_left_sooner_where_there_is_another(
    remote: Remote, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "PING_OF_SEVERAL_S", 0.05)
    monkeypatch.setattr(options, "SILENCE_OF_SEVERAL_S", 0.2)

    def play(connection: socket.socket, number: int) -> None:
        for command, opaque, _, _ in frames(connection) if number == 0 else ():
            if command == HELLO:
                connection.sendall(hello_answer(opaque))

    with played(play) as silent, remote.connected(together(silent, served.url), timeout=PATIENCE_S) as client:
        assert remote.call(client.groups) == []


@pytest.mark.parametrize("face", FACES)
def test_a_call_in_flight_is_in_doubt_when_its_server_is_killed_and_later_ones_go_to_the_other(
    tmp_path: Path, face: str
) -> None:
    remote = Remote(face)
    with serving.Served(tmp_path / "one") as first, serving.Served(tmp_path / "other") as second:
        relay = Relay(first.url)
        with remote.connected(together(relay.url, second.url), timeout=PATIENCE_S) as client:
            receipt = remote.call(lambda: client.publish("a", b"of the first", delay=3600))
            relay.swallow(PUBLISH)

            def kill() -> None:
                while len(relay.bodies(PUBLISH)) < 2:
                    time.sleep(0.001)
                first.kill()
                relay.refuse()

            killing = threading.Thread(target=kill)
            killing.start()
            with pytest.raises(AmbiguousError, match=f"the connection to {relay.url} was lost"):
                remote.call(lambda: client.publish("a", b"in flight", delay=3600))
            killing.join()
            remote.call(lambda: client.publish("a", b"of the other", delay=3600))
            assert remote.call(client.status).pending == 1
            with pytest.raises(delaymq.ForeignReceipt):
                remote.call(lambda: client.cancel(receipt))
        relay.close()
        first.start()
    remote.close()


@pytest.fixture
def taking_turns(folder: Path) -> Iterator[list[serving.Served]]:
    """Two servers of one store, of which the first runs. Their addresses are known."""
    with delaymq.open(folder, segment_bytes=4 << 20):
        pass
    first, second = serving.Served(folder), serving.Served(folder)
    second.start()
    second.stop()
    first.start()
    yield [first, second]
    first.kill()


def go_over_twice(servers: list[serving.Served], answered: set[bytes]) -> None:
    """Kills the one that runs and starts the other, once a third was answered, and once two were."""
    first, second = servers
    for share, (stops, starts) in enumerate([(first, second), (second, first)], 1):
        while len(answered) < share * COUNT:
            time.sleep(0.005)
        stops.kill()
        starts.start()


def test_a_store_that_is_served_elsewhere_is_found_there_and_nothing_is_lost(
    taking_turns: list[serving.Served],
) -> None:
    answered: set[bytes] = set()
    seen: Counter[bytes] = Counter()
    unmarked: Counter[bytes] = Counter()
    done = threading.Event()

    def publish(client: delaymq.Client, name: str) -> None:
        for number in range(COUNT):
            body = f"{name} {number}".encode()
            client.publish("a", body, message_id=body.decode().replace(" ", "-"), deduplicate=True)
            answered.add(body)

    def consume(messages: delaymq.Subscription) -> None:
        while (message := messages.get()) is not None:
            seen[message.body] += 1
            unmarked[message.body] += not message.redelivered
            message.ack()
            if len(seen) == 3 * COUNT:
                done.set()

    url = together(*(server.url for server in taking_turns))
    with delaymq.connect(url, timeout=PATIENCE_S) as producer, delaymq.connect(url) as consumer:
        messages = consumer.subscribe("a", group="g")
        threads = [threading.Thread(target=publish, args=(producer, name)) for name in "xyz"]
        threads.append(threading.Thread(target=consume, args=(messages,)))
        for thread in threads:
            thread.start()
        go_over_twice(taking_turns, answered)
        assert done.wait(PATIENCE_S), f"{len(answered)} answered, {len(seen)} seen"
        messages.stop()
        for thread in threads:
            thread.join(PATIENCE_S)
        with MAY_COME_AGAIN:
            messages.close()
        assert answered == set(seen)
        assert max(unmarked.values()) == 1, "what comes again is marked"
        assert producer.status().pending == 0


def test_coroutines_go_over_too(taking_turns: list[serving.Served]) -> None:
    answered: set[bytes] = set()
    unmarked: Counter[bytes] = Counter()

    async def publish(client: delaymq.AsyncClient, name: str) -> None:
        for number in range(COUNT):
            body = f"{name} {number}".encode()
            await client.publish("a", body)
            answered.add(body)

    async def consume(messages: delaymq.AsyncSubscription) -> None:
        while len(unmarked) < 3 * COUNT:
            message = await messages.get(PATIENCE_S)
            assert message is not None
            unmarked[message.body] += not message.redelivered
            message.ack()

    async def run() -> None:
        url = together(*(server.url for server in taking_turns))
        async with delaymq.connect_async(url, deduplicate=True, timeout=PATIENCE_S) as client:
            messages = await client.subscribe("a", group="g")
            async with asyncio.timeout(2 * PATIENCE_S), asyncio.TaskGroup() as group:
                for name in "xyz":
                    group.create_task(publish(client, name))
                group.create_task(consume(messages))
                await asyncio.to_thread(go_over_twice, taking_turns, answered)
            with MAY_COME_AGAIN:
                await messages.close()

    asyncio.run(run())
    assert answered == set(unmarked)
    assert max(unmarked.values()) == 1, "what comes again is marked"


def refusing(hellos: Callable[[int], bool], address: str, asked: list[int]) -> Callable[[socket.socket, int], None]:
    """Answers the hello of the connections that `hellos` names, and refuses everything else as a copy does."""

    def play(connection: socket.socket, number: int) -> None:
        for command, opaque, _, _ in frames(connection):
            asked.append(command)
            if command == HELLO and hellos(number):
                connection.sendall(hello_answer(opaque))
            else:
                body = not_primary_body("this node is not the primary", address, 7)
                connection.sendall(answer(command, opaque, body, code=NOT_PRIMARY))

    return play


@pytest.mark.parametrize("greets", [True, False], ids=["at a request", "at the hello"])
def test_the_primary_that_a_node_names_is_followed(remote: Remote, served: Served, greets: bool) -> None:
    asked: list[int] = []
    play = refusing(lambda _: greets, served.url.removeprefix("delaymq://"), asked)
    with played(play) as url, remote.connected(url) as client:
        receipt: Any = remote.call(lambda: client.publish("a", b"1", delay=3600))
        assert remote.call(lambda: client.cancel(receipt)) is delaymq.Outcome.DONE
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        remote.call(lambda: client.publish("a", b"2"))
        assert remote.next_of(messages).body == b"2"
        remote.call(messages.close)
        assert client.url == url
    assert asked == ([HELLO, PUBLISH] if greets else [HELLO])


def test_a_subscription_is_made_at_the_primary(remote: Remote, served: Served) -> None:
    play = refusing(lambda _: True, served.url.removeprefix("delaymq://"), [])
    served.store.publish("a", b"1")
    with played(play) as url, remote.connected(url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        assert remote.next_of(messages).body == b"1"
        remote.call(messages.close)


def test_a_call_for_which_no_node_was_primary_in_time_says_where_it_may_be(remote: Remote) -> None:
    where = f"127.0.0.1:{lone_port()}"
    asked: list[int] = []
    # It refuses the hello of every further connection, so that nothing is under way when the time is over.
    with (
        played(refusing(lambda number: number == 0, where, asked)) as url,
        remote.connected(url, timeout=1) as client,
    ):
        words = f"no node of {url} was primary within 1 s; nothing was done: this node is not the primary"
        for call in (lambda: client.publish("a", b""), lambda: client.subscribe("a", group="g")):
            with pytest.raises(NotPrimary, match=words) as caught:
                remote.call(call)
            assert (caught.value.address, caught.value.epoch) == (where, 7)
            assert isinstance(caught.value, ConnectionError)
    assert Counter(asked)[PUBLISH] == 1


def test_nodes_that_name_each_other_are_asked_again_after_a_wait_only(remote: Remote) -> None:
    asked: list[int] = []
    ports: list[str] = []

    def play(connection: socket.socket, number: int) -> None:
        refusing(lambda _: True, ports[0], asked)(connection, number)

    with played(play) as one, played(refusing(lambda _: True, "", asked)) as other:
        ports.append(other.removeprefix("delaymq://"))
        with (
            remote.connected(together(one, other), timeout=1) as client,
            # The last attempt may be under way at the end.
            pytest.raises((NotPrimary, AmbiguousError)),
        ):
            remote.call(lambda: client.publish("a", b""))
    # Two in each round, after 0, 50, 100, 200, 400 and 800 ms, each 30 percent less at most.
    assert 2 <= Counter(asked)[PUBLISH] <= 14
