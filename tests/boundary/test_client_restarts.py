"""A server that is killed and started again at its address, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import delaymq
import serving
from boundary.remote import FACES, Remote
from delaymq import AmbiguousError, ForkedProcess, Unreachable
from faces import Served
from proxies import ACKNOWLEDGE, PUBLISH, Relay

COUNT = 400
PATIENCE_S = 60
# What was acknowledged just before a kill came again, and the end says so.
MAY_COME_AGAIN = contextlib.suppress(AmbiguousError)


def restart_twice(process: serving.Served, answered: set[bytes]) -> None:
    """Once a third was answered, and once two were."""
    for share in (1, 2):
        while len(answered) < share * COUNT:
            time.sleep(0.005)
        process.kill()
        process.start()


def test_a_subject_that_was_made_while_the_client_was_away_is_read_from_its_first_message(
    process: serving.Served, folder: Path
) -> None:
    with (
        delaymq.connect(process.url, timeout=PATIENCE_S) as client,
        client.subscribe("order.*", group="g", start="latest") as messages,
    ):
        process.kill()
        with delaymq.open(folder) as store:
            store.publish("order.new", b"first")
        process.start()
        message = messages.get(PATIENCE_S)
        assert message is not None
        assert (message.subject, message.body) == ("order.new", b"first")
        message.ack()


def test_nothing_that_was_answered_is_lost_and_threads_go_on(process: serving.Served) -> None:
    answered: set[bytes] = set()
    seen: set[bytes] = set()
    done = threading.Event()

    def publish(client: delaymq.Client, name: str) -> None:
        for number in range(COUNT):
            body = f"{name} {number}".encode()
            client.publish("a", body)
            answered.add(body)

    def consume(messages: delaymq.Subscription) -> None:
        while (message := messages.get()) is not None:
            seen.add(message.body)
            message.ack()
            if len(seen) == 3 * COUNT:
                done.set()

    with (
        delaymq.connect(process.url, deduplicate=True, timeout=PATIENCE_S) as producer,
        delaymq.connect(process.url) as consumer,
    ):
        messages = consumer.subscribe("a", group="g")
        threads = [threading.Thread(target=publish, args=(producer, name)) for name in "xyz"]
        threads.append(threading.Thread(target=consume, args=(messages,)))
        for thread in threads:
            thread.start()
        restart_twice(process, answered)
        assert done.wait(PATIENCE_S), f"{len(answered)} answered, {len(seen)} seen"
        messages.stop()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert answered == seen
        with MAY_COME_AGAIN:
            messages.close()


def test_coroutines_go_on_too(process: serving.Served) -> None:
    async def publish(client: delaymq.AsyncClient, name: str, answered: set[bytes]) -> None:
        for number in range(COUNT):
            body = f"{name} {number}".encode()
            await client.publish("a", body)
            answered.add(body)

    async def consume(messages: delaymq.AsyncSubscription, seen: set[bytes]) -> None:
        while len(seen) < 3 * COUNT:
            message = await messages.get(PATIENCE_S)
            assert message is not None
            seen.add(message.body)
            message.ack()

    async def run() -> None:
        answered: set[bytes] = set()
        seen: set[bytes] = set()
        connect = delaymq.connect_async
        async with connect(process.url, deduplicate=True, timeout=PATIENCE_S) as producer:
            consumer = await connect(process.url)
            messages = await consumer.subscribe("a", group="g")
            async with asyncio.timeout(2 * PATIENCE_S), asyncio.TaskGroup() as group:
                for name in "xyz":
                    group.create_task(publish(producer, name, answered))
                group.create_task(consume(messages, seen))
                await asyncio.to_thread(restart_twice, process, answered)
            assert answered == seen
            with MAY_COME_AGAIN:
                await messages.close()
            with MAY_COME_AGAIN:
                await consumer.close()

    asyncio.run(run())


@pytest.mark.parametrize("face", FACES)
def test_a_server_that_is_not_there_for_a_while_is_waited_for(process: serving.Served, face: str) -> None:
    remote = Remote(face)
    with remote.connected(process.url, timeout=PATIENCE_S) as client:
        lost_count = client._connection.lost_count
        process.kill()
        while client._connection.lost_count == lost_count:
            remote.rest()
        starting = threading.Timer(0.2, process.start)
        starting.start()
        receipt = remote.call(lambda: client.publish("a", b"waited", delay=3600))
        starting.join()
        assert remote.call(lambda: client.cancel(receipt)) is delaymq.Outcome.DONE
    remote.close()


def test_a_client_may_not_be_used_in_a_forked_child(folder: Path) -> None:
    served = Served(folder)
    with delaymq.connect(served.url) as client, client.subscribe("a", group="g") as messages:
        client.publish("a", b"1")
        message = messages.get(20)
        assert message is not None
        child = os.fork()
        if child == 0:
            calls: list[Any] = [
                lambda: client.publish("a", b""),
                client.status,
                client.close,
                lambda: client.subscribe("a", group="g"),
                lambda: messages.get(0),
                message.ack,
                lambda: messages.flush(1),
                messages.close,
            ]
            refused = 0
            for call in calls:
                try:
                    call()
                except ForkedProcess as error:
                    refused += error.caller == os.getpid() and error.owner == os.getppid()
            os._exit(0 if refused == len(calls) and not client.is_open else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        message.ack()
        messages.flush(20)
        client.publish("a", b"2")
        second = messages.get(20)
        assert second is not None
        assert second.body == b"2"
        second.ack()
    served.close()


def test_threads_share_a_client(folder: Path) -> None:
    served = Served(folder)
    found: list[bytes] = []

    def publish(name: str) -> None:
        for number in range(100):
            client.publish("a", f"{name} {number}".encode())

    def consume() -> None:
        for batch in messages.batches(10, wait=0.05):
            found.extend(message.body for message in batch)
            messages.ack(batch)
            if len(found) >= 600:
                messages.stop()

    with delaymq.connect(served.url) as client, client.subscribe("a", group="g") as messages:
        threads = [threading.Thread(target=publish, args=(f"p{number}",)) for number in range(6)]
        threads += [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert len(found) == len(set(found)) == 600
    served.close()


def test_publishes_are_pipelined_and_acknowledgements_go_together(folder: Path) -> None:
    served = Served(folder)
    relay = Relay(served.url)

    async def run() -> None:
        async with delaymq.connect_async(relay.url) as client, client.subscribe("a", group="g") as messages:
            await asyncio.gather(*(client.publish_many("a", [b"x"] * 10) for _ in range(50)))
            taken = 0
            while taken < 500:
                message = await messages.get(20)
                assert message is not None
                message.ack()
                taken += 1

    asyncio.run(run())
    assert len(relay.bodies(PUBLISH)) == 50
    assert 1 <= len(relay.bodies(ACKNOWLEDGE)) <= 100
    relay.close()
    served.close()


def test_a_consumer_that_takes_nothing_holds_up_nobody(folder: Path) -> None:
    served = Served(folder)
    with (
        delaymq.connect(served.url) as slow,
        delaymq.connect(served.url) as quick,
        slow.subscribe("a", group="g") as idle,
        quick.subscribe("a", group="g") as busy,
    ):
        for _ in range(5):
            quick.publish_many("a", [bytes(1000)] * 1_000)
        first = idle.get(20)
        assert first is not None
        [group] = quick.groups()
        assert group.in_flight <= 256, "no more than it has room for"
        taken = 0
        for batch in busy.batches(500, wait=20):
            taken += len(batch)
            busy.ack(batch)
            if taken >= 5_000 - 256:
                break
        first.ack()
    served.close()


RELAYED = """
    import asyncio, delaymq, gc, os, socket, sys, threading, time, warnings
    warnings.simplefilter("always")
    ends = []
    def threads():
        names = []
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/comm") as comm:
                    names.append(comm.read())
            except OSError:
                pass  # it has ended
        return " ".join(names)
    def relayed(listener, url):
        host, port = url.removeprefix("delaymq://").split(":")
        def carry(source, to):
            while data := source.recv(65536):
                to.sendall(data)
        def accept():
            ends.extend((listener.accept()[0], socket.create_connection((host, int(port)))))
            listener.close()
            threading.Thread(target=carry, args=ends, daemon=True).start()
            threading.Thread(target=carry, args=ends[::-1], daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        return "delaymq://%s:%d" % listener.getsockname()
"""

LEFT = {
    "client": """
        client = delaymq.connect(sys.argv[1])
        client.publish("a", b"x")
        messages = client.subscribe("a", group="g")
        messages.get(20).ack()
        del client, messages
        gc.collect()
    """,
    "garbage of the thread": """
        import logging, threading, socket
        # A relay of one connection, which ends when the client is garbage: the client's thread logs it, and collects.
        listener = socket.create_server(("127.0.0.1", 0))
        client = delaymq.connect(relayed(listener, sys.argv[1]))
        client.publish("a", b"x")
        client.cycle = client
        collected = threading.Event()
        class Collecting(logging.Handler):
            def emit(self, record):
                gc.collect()
                collected.set()
        logging.getLogger("delaymq").addHandler(Collecting())
        gc.disable()
        del client
        for end in ends:
            end.shutdown(socket.SHUT_RDWR)
        assert collected.wait(20)
        while "delaymq-client" in threads():
            time.sleep(0.01)
    """,
    "asyncio client": """
        async def main():
            client = await delaymq.connect_async(sys.argv[1])
            await client.publish("a", b"x")
        asyncio.run(main())
        gc.collect()
    """,
    "asyncio client of a closed loop": """
        async def main():
            client = await delaymq.connect_async(sys.argv[1])
            await client.publish("a", b"x")
            return client
        client = asyncio.run(main())
        del client
        gc.collect()
    """,
}


@pytest.mark.parametrize("left", LEFT.values(), ids=list(LEFT))
def test_a_client_that_nobody_closed_is_warned_of_and_ends(folder: Path, left: str) -> None:
    program = textwrap.dedent(RELAYED) + textwrap.dedent(left)
    served = Served(folder)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", "-c", program, served.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "was not closed" in ended.stderr
    assert "Traceback" not in ended.stderr
    served.close()
    with pytest.raises(Unreachable):
        delaymq.connect(served.url)
