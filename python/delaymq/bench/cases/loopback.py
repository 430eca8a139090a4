"""Messages a second through a server: one process publishes, one serves, one consumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import together
from delaymq.bench.served import Served, on_server

BODY_BYTES = 256
DELAY_MS = 600_000  # for messages that are not consumed
FRAME_HEAD_BYTES = 47  # of a publish: frame header, counts and subject
MESSAGE_HEAD_BYTES = 23
ANSWER_BYTES = 16  # of the relay
MESSAGES = {1: 150_000, 16: 1_000_000, 64: 1_500_000, 256: 2_000_000}
IN_FLIGHT = {1: 1024, 16: 256, 64: 128, 256: 64}  # requests on one connection
MANY = {(64, 1): 200_000, (8, 64): 800_000}  # messages by connections and requests in flight on each
QUICK_SHARE = 20
TOLD = ("p50_ms", "p99_ms", "early")  # duration of answers, and messages before their due time
RELAYED = (
    "the same bytes through a relay: a reading thread, one pwrite and fdatasync for all that has arrived, 16 bytes"
)


def cases(quick: bool) -> Sequence[Case]:
    """Through a server to a consumer, in batches of four sizes, durable and not; only the durable ones if quick."""
    modes = ("disk",) if quick else ("disk", "os")
    return [_through(batch, durability, quick=quick) for durability in modes for batch in MESSAGES]


def _through(batch: int, durability: str, *, quick: bool) -> Case:
    messages = MESSAGES[batch] // (QUICK_SHARE if quick else 1)
    shape = {"batch": batch, "connections": 1, "in_flight": IN_FLIGHT[batch]}
    numbers = numbers_of(messages, durability, **shape, meets=1)

    def ours(server: Served, folder: Path) -> Figures:
        orders = {name: {**numbers, "port": server.port} for name in ("consuming", "producing")}
        return _from_first_to_last(together(folder, orders), messages)

    def limit(folder: Path) -> Figures:
        return relayed(folder, numbers)

    return Case(
        bench="loopback",
        unit="messages/s",
        durability=durability,
        n=messages,
        pairs=interleaved(on_server(ours, durability, settled=not quick), limit, quick=quick),
        limit_words=f"{RELAYED} for each frame, all of it to a consumer",
        detail={"batch": batch, "in_flight": IN_FLIGHT[batch], "body_bytes": BODY_BYTES, "from": "rust"},
        is_served=True,
    )


def relayed(folder: Path, numbers: Mapping[str, float]) -> Figures:
    """The limit of `loopback`, with the numbers of `numbers_of`."""
    orders = dict.fromkeys(("relay_limit", "consuming_limit", "producing_limit"), numbers)
    return _from_first_to_last(together(folder, orders), int(numbers["messages"]))


def _from_first_to_last(found: dict[str, Figures], messages: int) -> Figures:
    [produced] = [figures for name, figures in found.items() if name.startswith("producing")]
    [consumed] = [figures for name, figures in found.items() if name.startswith("consuming")]
    extra = {
        name: figures[name] for figures in found.values() for name in ("p50_ms", "p99_ms", "early") if name in figures
    }
    return {"value": messages / ((consumed["ended_us"] - produced["began_us"]) / 1e6), **extra}


def cases_of_connections(quick: bool) -> Sequence[Case]:
    """Durable acknowledgements of one message each, on many connections of one process."""
    return [_many(connections, in_flight, quick=quick) for connections, in_flight in MANY]


def _many(connections: int, in_flight: int, *, quick: bool) -> Case:
    messages = MANY[connections, in_flight] // (QUICK_SHARE if quick else 1)
    numbers = numbers_of(
        messages, "disk", batch=1, connections=connections, in_flight=in_flight, delay_ms=DELAY_MS, gathers=1
    )

    def ours(server: Served, folder: Path) -> Figures:
        found = together(folder, {"producing": {**numbers, "port": server.port}})["producing"]
        return {name: found[name] for name in ("value", "p50_ms", "p99_ms", "p999_ms")}

    def limit(folder: Path) -> Figures:
        found = together(folder, {"relay_limit": numbers, "producing_limit": numbers})
        return {"value": found["producing_limit"]["value"]}

    return Case(
        bench="connections",
        unit="acks/s",
        durability="disk",
        n=messages,
        pairs=interleaved(on_server(ours, settled=not quick), limit, quick=quick),
        limit_words=f"{RELAYED} for each frame",
        detail={"connections": connections, "in_flight": in_flight, "body_bytes": BODY_BYTES, "from": "rust"},
        is_served=True,
    )


def numbers_of(messages: int, durability: str, batch: int, **shape: int) -> dict[str, float]:
    """The numbers for processes that publish and consume, and for the limit of both."""
    return {
        "messages": messages,
        "requests": -(-messages // batch),
        "batch": batch,
        "body_bytes": BODY_BYTES,
        "frame_bytes": FRAME_HEAD_BYTES + batch * (MESSAGE_HEAD_BYTES + BODY_BYTES),
        "answer_bytes": ANSWER_BYTES,
        "receipts": 1,
        "delay_ms": 0,
        "disk": int(durability == "disk"),
        **shape,
    }
