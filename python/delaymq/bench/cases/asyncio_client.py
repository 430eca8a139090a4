"""Messages a second that one asyncio client sends to a server, or receives from it, in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures, Measurement
from delaymq.bench.rust import beside, own_process, relay_port
from delaymq.bench.served import Served, on_server
from delaymq.client.event_loop.client import connect_async

HOST = "127.0.0.1"
SUBJECT = "bench.served"  # the subject that the processes of the benches use
BODY = bytes(256)
BATCH = 1000
IN_FLIGHT = 4  # batches in progress
IN_FLIGHT_MAX = 16_384
FRAME_BYTES = 47 + BATCH * (23 + len(BODY))
ANSWER_BYTES = 16
READ_BYTES = 1 << 18
DELAY_S = 600  # for messages that are not consumed
MESSAGES = 300_000
MESSAGES_QUICK = 20_000
COUNTED = "as many bytes on an event loop that counts them and nothing else"


def cases(quick: bool) -> Sequence[Case]:
    """Published, published with deduplication, and consumed; the limit is an event loop that only counts the bytes."""
    messages = MESSAGES_QUICK if quick else MESSAGES

    def publishing(server: Served, _: Path, *, deduplicate: bool = False) -> Figures:
        return {"value": messages / asyncio.run(_publish(server.port, messages, deduplicate=deduplicate))}

    def consuming(server: Served, folder: Path) -> Figures:
        own_process("producing", folder, port=server.port, **_numbers(messages))
        return {"value": messages / asyncio.run(_consume(server.port, messages))}

    def sending(folder: Path) -> Figures:
        with beside(folder, {"relay_limit": _numbers(messages)}):
            return {"value": messages / asyncio.run(_send(relay_port(folder), messages))}

    def receiving(folder: Path) -> Figures:
        numbers = {**_numbers(messages), "meets": 1}
        with beside(folder, {"relay_limit": numbers, "producing_limit": numbers}):
            return {"value": messages / asyncio.run(_receive(relay_port(folder), folder, messages))}

    calls: tuple[tuple[str, Callable[[Served, Path], Figures], Measurement], ...] = (
        ("publish", publishing, sending),
        ("deduplicated", partial(publishing, deduplicate=True), sending),
        ("consume", consuming, receiving),
    )
    return [
        Case(
            bench="asyncio_client",
            unit="messages/s",
            durability="disk",
            n=messages,
            pairs=interleaved(on_server(ours, settled=not quick), limit, quick=quick),
            limit_words=COUNTED,
            detail={"call": call, "batch": BATCH, "in_flight": IN_FLIGHT, "body_bytes": len(BODY), "from": "python"},
            is_served=True,
        )
        for call, ours, limit in calls
    ]


def _numbers(messages: int) -> dict[str, float]:
    """The numbers for publishing processes, and for both ends of the limit."""
    requests = messages // BATCH
    shape = {"connections": 1, "in_flight": IN_FLIGHT, "batch": BATCH, "body_bytes": len(BODY), "delay_ms": 0}
    sizes = {"frame_bytes": FRAME_BYTES, "answer_bytes": ANSWER_BYTES}
    return {"messages": messages, "requests": requests, "disk": 1, **shape, **sizes}


async def _publish(port: int, messages: int, *, deduplicate: bool) -> float:
    """Seconds until all messages are durable, in batches, with `IN_FLIGHT` of them in progress."""
    async with connect_async(f"delaymq://{HOST}:{port}", deduplicate=deduplicate) as store:
        left = iter(range(messages // BATCH))

        async def publish() -> None:
            for _ in left:
                await store.publish_many(SUBJECT, [BODY] * BATCH, DELAY_S)

        started = time.perf_counter()
        await asyncio.gather(*(publish() for _ in range(IN_FLIGHT)))
        return time.perf_counter() - started


async def _consume(port: int, messages: int) -> float:
    """Seconds until all messages have arrived, in batches, and their acknowledgements are durable."""
    async with connect_async(f"delaymq://{HOST}:{port}") as store:
        started = time.perf_counter()
        async with store.subscribe(SUBJECT, group="bench", in_flight_max=IN_FLIGHT_MAX) as subscription:
            left = messages
            async for batch in subscription.batches(BATCH):
                subscription.ack(batch)
                left -= len(batch)
                if left <= 0:
                    break
            await subscription.flush()
            return time.perf_counter() - started


async def _send(port: int, messages: int) -> float:
    """Seconds until the relay has answered as many frames."""
    reader, writer = await asyncio.open_connection(HOST, port)
    frame, left = bytes(FRAME_BYTES), messages // BATCH
    started = time.perf_counter()
    for number in range(left + IN_FLIGHT):
        if number >= IN_FLIGHT:
            await reader.readexactly(ANSWER_BYTES)
        if number < left:
            writer.write(frame)
    seconds = time.perf_counter() - started
    writer.close()
    return seconds


async def _receive(port: int, folder: Path, messages: int) -> float:
    """Seconds until the relay has passed on as many bytes."""
    reader, writer = await asyncio.open_connection(HOST, port)
    left = messages // BATCH * FRAME_BYTES
    started = time.perf_counter()
    (folder / "consuming").touch()
    while left > 0:
        left -= len(await reader.read(READ_BYTES))
    seconds = time.perf_counter() - started
    writer.close()
    return seconds
