"""One of `publishers`: it connects, waits for the others, and publishes as fast as it is answered.

Beside each way to publish is the plainest loop of the same shape: it sends as many bytes, reads an answer of the same
size, and looks at neither.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias

from delaymq.bench.machine import anonymous_bytes, thread_count
from delaymq.bench.publishers import BATCH, BODY, HOST, READY, SUBJECT, Orders
from delaymq.client.event_loop.client import connect_async
from delaymq.client.threads.client import Client, connect
from delaymq.message import Publish

FIRST_DUE = datetime.now(UTC) + timedelta(hours=1)
BODIES = [bytes(BODY) for _ in range(BATCH)]
DUE = [FIRST_DUE + timedelta(milliseconds=number) for number in range(BATCH)]
SETTLE_S = 0.5

Ask: TypeAlias = Callable[[], object]
"""Sends one request and waits for its answer."""


def main() -> None:
    """Does what it is told, and prints what it found."""
    orders = Orders(**json.loads(sys.argv[1]))
    print(json.dumps(WORK[orders.call](orders)))


def _meet() -> None:
    """Says that it is ready, and waits until all are."""
    print(READY, end="", flush=True)
    sys.stdin.readline()


def _one(client: Client) -> Ask:
    return partial(client.publish, SUBJECT, BODY, at=FIRST_DUE)


def _rows(client: Client) -> Ask:
    """A program has no rows before it makes them, so that they are made anew for each call."""
    return lambda: client.publish_many(
        [Publish(SUBJECT, body, at=due) for body, due in zip(BODIES, DUE, strict=True)],
    )


def _columns(client: Client) -> Ask:
    return partial(client.publish_many, SUBJECT, BODIES, at=DUE)


def _threads(asking: Callable[[Client], Ask]) -> Callable[[Orders], Mapping[str, float]]:
    """Threads that have a client each."""

    def measured(orders: Orders) -> Mapping[str, float]:
        with ExitStack() as opened:
            clients = [opened.enter_context(connect(_url(orders))) for _ in range(orders.workers)]
            return _asked([asking(client) for client in clients], orders.calls)

    return measured


def _plain_threads(orders: Orders) -> Mapping[str, float]:
    """Threads that have a socket each."""
    frame = bytes(orders.frame_bytes)

    def asking(line: socket.socket) -> Ask:
        answer = bytearray(orders.answer_bytes)

        def ask() -> None:
            line.sendall(frame)
            if line.recv_into(answer, 0, socket.MSG_WAITALL) < len(answer):
                raise ConnectionError("the relay has closed")

        return ask

    with ExitStack() as opened:
        lines = [opened.enter_context(socket.create_connection((HOST, orders.port))) for _ in range(orders.workers)]
        for line in lines:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _asked([asking(line) for line in lines], orders.calls)


def _asked(asks: Sequence[Ask], calls: int) -> Mapping[str, float]:
    """When the calls of all threads began and ended; one alone is the main thread."""
    left = iter(range(calls))

    def work(ask: Ask) -> None:
        for _ in left:
            ask()

    with ThreadPoolExecutor(len(asks)) as threads:
        _meet()
        began_s = time.time()
        list((threads.map if len(asks) > 1 else map)(work, asks))
        return {"began_s": began_s, "ended_s": time.time()}


def _coroutines(orders: Orders) -> Mapping[str, float]:
    """Coroutines that share a client."""

    async def measured() -> Mapping[str, float]:
        async with connect_async(_url(orders)) as client:
            left = iter(range(orders.calls))

            async def work() -> None:
                for _ in left:
                    await client.publish(SUBJECT, BODY, at=FIRST_DUE)

            _meet()
            began_s = time.time()
            await asyncio.gather(*(work() for _ in range(orders.workers)))
            return {"began_s": began_s, "ended_s": time.time()}

    return asyncio.run(measured())


class _Repeating(asyncio.Protocol):
    """Has so many frames in flight, and sends another for each answer."""

    def __init__(self, orders: Orders) -> None:
        self._frame, self._answer_bytes = bytes(orders.frame_bytes), orders.answer_bytes
        self._left, self._unanswered, self._bytes = orders.calls, orders.calls, 0
        self._transport: asyncio.Transport | None = None
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the relay has closed"))

    def data_received(self, data: bytes) -> None:
        answered, self._bytes = divmod(self._bytes + len(data), self._answer_bytes)
        self._unanswered -= answered
        self.send(answered)
        if not self._unanswered:
            self.done.set_result(None)

    def send(self, count: int) -> None:
        """Writes at most so many frames, all at once."""
        assert self._transport is not None
        count = min(count, self._left)
        self._left -= count
        if count:
            self._transport.write(self._frame * count)


def _plain_coroutines(orders: Orders) -> Mapping[str, float]:
    """One connection on an event loop, with as many requests in flight as there are coroutines."""

    async def measured() -> Mapping[str, float]:
        loop = asyncio.get_running_loop()
        transport, repeating = await loop.create_connection(lambda: _Repeating(orders), HOST, orders.port)
        _meet()
        began_s = time.time()
        repeating.send(orders.workers)
        await repeating.done
        ended_s = time.time()
        transport.close()
        return {"began_s": began_s, "ended_s": ended_s}

    return asyncio.run(measured())


def _idle(orders: Orders) -> Mapping[str, float]:
    """Clients that have each published a message."""

    def opened(within: ExitStack) -> None:
        client = within.enter_context(connect(_url(orders)))
        client.publish(SUBJECT, BODY, at=FIRST_DUE)

    return _standing(opened, orders)


def _plain_idle(orders: Orders) -> Mapping[str, float]:
    """Sockets."""

    def opened(within: ExitStack) -> None:
        within.enter_context(socket.create_connection((HOST, orders.port)))

    return _standing(opened, orders)


def _standing(opened: Callable[[ExitStack], None], orders: Orders) -> Mapping[str, float]:
    """The costs of each to this process: memory, threads, and processor time while nobody uses it."""
    with ExitStack() as first:
        opened(first)  # what all of them share is there before
        _meet()
        threads, before = thread_count(), _resting_bytes()
        with ExitStack() as within:
            for _ in range(orders.workers):
                opened(within)
            bytes_each = (_resting_bytes() - before) / orders.workers
            threads_each = (thread_count() - threads) / orders.workers
            used = time.process_time()
            time.sleep(orders.seconds)
            used = time.process_time() - used
    each_us_per_s = used * 1e6 / (orders.workers + 1) / max(orders.seconds, 1e-3)
    return {"value": bytes_each, "processor_us_per_s": each_us_per_s, "threads": threads_each}


def _resting_bytes() -> float:
    time.sleep(SETTLE_S)
    gc.collect()
    return anonymous_bytes()


def _url(orders: Orders) -> str:
    return f"delaymq://{HOST}:{orders.port}"


WORK: dict[str, Callable[[Orders], Mapping[str, float]]] = {
    "one": _threads(_one),
    "rows": _threads(_rows),
    "columns": _threads(_columns),
    "coroutines": _coroutines,
    "idle": _idle,
    "plain": _plain_threads,
    "plain_coroutines": _plain_coroutines,
    "plain_idle": _plain_idle,
}
"""The work of a process, by name."""


if __name__ == "__main__":
    main()
