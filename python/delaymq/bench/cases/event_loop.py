"""Messages a second on one event loop, with a store in the same process: in batches, and one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from delaymq._asyncio.message import AsyncMessage
from delaymq._asyncio.store import AsyncStore, open_async
from delaymq._asyncio.subscription import AsyncSubscription
from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures

SUBJECT = "bench.asyncio"
BODY = bytes(64)
BATCH = 1000
IN_FLIGHT_MAX = 4096

Consumed: TypeAlias = Callable[[AsyncSubscription, int], Coroutine[Any, Any, None]]


def cases(quick: bool) -> Sequence[Case]:
    """Consumed with acknowledgements in batches and one by one; published by one coroutine."""
    messages = 50_000 if quick else 400_000
    rows = (
        ("batches", _consuming(_in_batches, messages), "as many AsyncMessage objects made from ready tuples"),
        ("one by one", _consuming(_one_by_one, messages), "those objects, and one coroutine awaited for each"),
        ("publish", _publishing(messages // 4), "one coroutine awaited for each, and a body copied"),
    )
    limits = {"batches": _objects, "one by one": _awaits, "publish": _awaits}
    return [
        Case(
            bench="asyncio",
            unit="messages/s",
            durability="os",
            n=messages if call != "publish" else messages // 4,
            pairs=interleaved(ours, _limit(limits[call], messages), quick=quick),
            limit_words=words,
            detail={"call": call, "batch": BATCH, "in_flight_max": IN_FLIGHT_MAX, "body_bytes": len(BODY)},
        )
        for call, ours, words in rows
    ]


def _consuming(consume: Consumed, messages: int) -> Callable[[Path], Figures]:
    async def measured(folder: Path) -> float:
        async with open_async(folder, durability="os") as store:
            subscribing = store.subscribe(SUBJECT, group="bench", in_flight_max=IN_FLIGHT_MAX)
            async with subscribing as subscription:
                await _publish_all(store, messages)
                started = time.perf_counter()
                await consume(subscription, messages)
                await subscription.flush()
                return messages / (time.perf_counter() - started)

    return lambda folder: {"value": asyncio.run(measured(folder))}


async def _publish_all(store: AsyncStore, messages: int) -> None:
    for _ in range(messages // BATCH):
        await store.publish_many(SUBJECT, [BODY] * BATCH)


async def _in_batches(subscription: AsyncSubscription, left: int) -> None:
    async for batch in subscription.batches(BATCH):
        subscription.ack(batch)
        left -= len(batch)
        if left <= 0:
            return


async def _one_by_one(subscription: AsyncSubscription, left: int) -> None:
    async for message in subscription:
        message.ack()
        left -= 1
        if left <= 0:
            return


def _publishing(messages: int) -> Callable[[Path], Figures]:
    async def measured(folder: Path) -> float:
        async with open_async(folder, durability="os") as store:
            started = time.perf_counter()
            for _ in range(messages):
                await store.publish(SUBJECT, BODY, delay=600)
            return messages / (time.perf_counter() - started)

    return lambda folder: {"value": asyncio.run(measured(folder))}


def _limit(plain: Callable[[int], None], messages: int) -> Callable[[Path], Figures]:
    def measured(_: Path) -> Figures:
        started = time.perf_counter()
        plain(messages)
        return {"value": messages / (time.perf_counter() - started)}

    return measured


def _made(count: int) -> list[AsyncMessage]:
    delivery = (SUBJECT, BODY, 1, 1, 1, False, 1, 1, b"")
    return [AsyncMessage(None, (key, *delivery), 0) for key in range(count)]  # type: ignore[arg-type]


def _objects(messages: int) -> None:
    for _ in range(messages // BATCH):
        _made(BATCH)


def _awaits(messages: int) -> None:
    async def one(body: bytes) -> bytes:
        return bytes(bytearray(body))

    async def all_of_them() -> None:
        for _ in range(messages // BATCH):
            for message in _made(BATCH):
                await one(message.body)

    asyncio.run(all_of_them())
