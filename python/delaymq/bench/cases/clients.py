"""Messages a second that programs in Python publish to a server or consume from it, and the cost of idle clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from delaymq.bench.cases.loopback import numbers_of, relayed
from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import Mark, at_least, at_most
from delaymq.bench.publishers import BATCH, BODY, HOST, SUBJECT, Orders, published, watched
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import beside, own_process, relay_port, together
from delaymq.bench.served import Served, on_server
from delaymq.client.threads.client import connect
from delaymq.store import Store
from delaymq.subscription import Subscription

ANSWER_HEAD_BYTES = 28  # of an answer to a publish: frame header and count
RECEIPT_BYTES = 48
IN_FLIGHT_MAX = 16_384
QUICK_SHARE = 20
OS_TIMES = 2  # as many messages without a sync
PLAIN = "the plainest loop in Python that sends as many bytes to a relay and reads an answer of the same size"
PLAIN_RUST = "the same loop in Rust"
IDLE = 64  # clients
IDLE_SOCKETS = 512  # of the limits: so many that they take pages
IDLE_S = 11.0  # a client asks its server after ten silent seconds whether it lives
IDLE_BYTES_MOST = 200_000
IDLE_US_MOST = 100.0  # of processor time a second
MIB = 1 << 20

Consume: TypeAlias = Callable[[Subscription, int], None]
"""Takes and acknowledges so many messages."""


@dataclass(frozen=True)
class Publishing:
    """A way to publish.

    Attributes:
        work: The work of each process, a name of `publisher.WORK`.
        plain: The loop that has no client, another of its names.
        messages: The number that is published with a sync.
        processes: The number of processes that publish.
        workers: The threads or coroutines of each.
        batch: The messages of a call.
        connections: The connections of each.
        os: True if there is a row without a sync, too.
        must: The marks of its rows.
    """

    work: str
    plain: str
    messages: int
    processes: int = 1
    workers: int = 1
    batch: int = 1
    connections: int = 1
    os: bool = True
    must: tuple[Mark, ...] = ()


PUBLISHING = {
    "one thread": Publishing("one", "plain", 4_000, must=at_least(ratio=0.75)),
    "64 threads": Publishing("one", "plain", 20_000, processes=2, workers=32, connections=32),
    "64 coroutines": Publishing("coroutines", "plain_coroutines", 60_000, workers=64),
    "rows": Publishing("rows", "plain", 200_000, batch=BATCH, os=False),
    "columns": Publishing("columns", "plain", 400_000, batch=BATCH, os=False),
}


def cases(quick: bool) -> Sequence[Case]:
    """Published one by one and in batches, consumed in both ways, and idle; some also without a sync, if not quick."""
    return [
        *(_publishing(call, "disk", quick=quick) for call in PUBLISHING),
        _consuming("one by one", _one_by_one, 200_000, at_least(ratio=0.12), quick=quick),
        _consuming("batches", _in_batches, 600_000, at_least(ratio=0.7), quick=quick),
        _idle(quick),
        *(_publishing(call, "os", quick=quick) for call, way in PUBLISHING.items() if way.os and not quick),
    ]


def _publishing(call: str, durability: str, *, quick: bool) -> Case:
    way = PUBLISHING[call]
    messages = way.messages // QUICK_SHARE if quick else way.messages * (OS_TIMES if durability == "os" else 1)
    connections, in_flight = way.processes * way.connections, way.workers // way.connections
    shape = {"connections": connections, "in_flight": in_flight, "gathers": 1}
    numbers = numbers_of(messages, durability, way.batch, **shape)
    numbers["answer_bytes"] = ANSWER_HEAD_BYTES + way.batch * RECEIPT_BYTES
    calls = messages // way.batch // way.processes
    sizes = {name: int(numbers[name]) for name in ("frame_bytes", "answer_bytes")}

    def ours(server: Served, _: Path) -> Figures:
        return {"value": messages / published(Orders(way.work, server.port, way.workers, calls), way.processes)}

    def limit(folder: Path) -> Figures:
        python, rust = _folders(folder)
        with beside(python, {"relay_limit": numbers}):
            orders = Orders(way.plain, relay_port(python), way.workers, calls, **sizes)
            plain_s = published(orders, way.processes)
        found = together(rust, {"relay_limit": numbers, "producing_limit": numbers})
        return {"value": messages / plain_s, "plain": found["producing_limit"]["value"]}

    return Case(
        bench="clients",
        unit="messages/s",
        durability=durability,
        n=messages,
        pairs=interleaved(on_server(ours, durability, settled=not quick), limit, quick=quick),
        limit_words=PLAIN,
        plain_words=PLAIN_RUST,
        detail={
            "call": call,
            **({"batch": way.batch} if way.batch > 1 else {}),
            "processes": way.processes,
            "body_bytes": len(BODY),
            "from": "python",
        },
        is_served=True,
        must=way.must,
    )


def _folders(folder: Path) -> tuple[Path, Path]:
    """A folder for the limit in Python, and one for that in Rust."""
    python, rust = folder / "python", folder / "rust"
    python.mkdir()
    rust.mkdir()
    return python, rust


def _consuming(call: str, consume: Consume, messages: int, must: tuple[Mark, ...], *, quick: bool) -> Case:
    messages //= QUICK_SHARE if quick else 1
    numbers = numbers_of(messages, "disk", BATCH, connections=1, in_flight=4, meets=1)

    def ours(server: Served, folder: Path) -> Figures:
        own_process("producing", folder, **{**numbers, "meets": 0}, port=server.port)
        with connect(f"delaymq://{HOST}:{server.port}") as client:
            return _consumed(client.subscribe(SUBJECT, group="bench", in_flight_max=IN_FLIGHT_MAX), consume, messages)

    def limit(folder: Path) -> Figures:
        embedded, rust = _folders(folder)
        with Store.open(embedded) as store:
            for _ in range(messages // BATCH):
                store.publish_many(SUBJECT, [BODY] * BATCH)
            subscribing = store.subscribe(SUBJECT, group="bench", in_flight_max=IN_FLIGHT_MAX)
            found = _consumed(subscribing, consume, messages)
        return {**found, "plain": relayed(rust, numbers)["value"]}

    return Case(
        bench="clients",
        unit="messages/s",
        durability="disk",
        n=messages,
        pairs=interleaved(on_server(ours), limit, quick=quick),
        limit_words="an embedded store that consumes as many in the same way",
        plain_words="as many bytes, published in Rust through a relay to a reader in Rust",
        detail={"call": call, **({"batch": BATCH} if consume is _in_batches else {}), "from": "python"},
        is_served=True,
        must=must,
    )


def _consumed(subscribing: AbstractContextManager[Subscription], consume: Consume, messages: int) -> Figures:
    """From the subscription until all messages have come and their acknowledgements are durable."""
    started = time.perf_counter()
    with subscribing as subscription:
        consume(subscription, messages)
        subscription.flush()
        return {"value": messages / (time.perf_counter() - started)}


def _one_by_one(subscription: Subscription, left: int) -> None:
    for message in subscription:
        _look_at(message.body)
        message.ack()
        left -= 1
        if left <= 0:
            return


def _in_batches(subscription: Subscription, left: int) -> None:
    for batch in subscription.batches(BATCH):
        for message in batch:
            _look_at(message.body)
        subscription.ack(batch)
        left -= len(batch)
        if left <= 0:
            return


def _look_at(body: bytes) -> None:
    if len(body) != len(BODY):
        raise RuntimeError(f"a body of {len(body)} bytes")


def _idle(quick: bool) -> Case:
    """Anonymous memory of each of some clients that are connected and not used."""
    clients, seconds = (IDLE // QUICK_SHARE, 0.5) if quick else (IDLE, IDLE_S)
    numbers = {**numbers_of(1, "disk", 1, connections=IDLE_SOCKETS + 1, in_flight=1), "standing": IDLE_SOCKETS}

    def ours(server: Served, _: Path) -> Figures:
        return watched(Orders("idle", server.port, clients, seconds=seconds))

    def limit(folder: Path) -> Figures:
        python, rust = _folders(folder)
        with beside(python, {"relay_limit": numbers}):
            found = watched(Orders("plain_idle", relay_port(python), IDLE_SOCKETS))
        array = own_process("standing_limit", rust, **numbers)["value"]
        return {"value": found["value"], "plain": array * MIB / IDLE_SOCKETS}

    return Case(
        bench="clients",
        unit="bytes",
        durability="disk",
        n=clients,
        pairs=interleaved(on_server(ours), limit, quick=quick),
        limit_words="a connected socket of Python",
        plain_words="80 bytes in an array",
        higher_is_better=False,
        detail={"call": "idle", "seconds": seconds, "from": "python"},
        is_served=True,
        must=at_most(value=IDLE_BYTES_MOST, processor_us_per_s=IDLE_US_MOST),
    )
