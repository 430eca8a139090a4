"""The asyncio face under pytest-benchmark. Each round is one `run_until_complete` of a thousand messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import delaymq
from delaymq import AsyncStore, AsyncSubscription
from delaymq.store import Durability

BODY = bytes(256)
DELAY_S = 600
BATCH = 1000
AT_ONCE = 100
ROUNDS = 20


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path, durability: Durability, runner: asyncio.Runner) -> Iterator[AsyncStore]:
    async def opened() -> AsyncStore:
        return await delaymq.open_async(tmp_path / "store", durability=durability)

    store = runner.run(opened())
    yield store
    runner.run(store.close())


def rounds(
    benchmark: BenchmarkFixture,
    runner: asyncio.Runner,
    once: Callable[[], Coroutine[Any, Any, None]],
    before: Callable[[], Coroutine[Any, Any, object]] | None = None,
) -> None:
    def setup() -> None:
        if before is not None:
            runner.run(before())

    benchmark.pedantic(lambda: runner.run(once()), setup=setup, rounds=ROUNDS)


def test_publish_one_after_the_other(benchmark: BenchmarkFixture, runner: asyncio.Runner, store: AsyncStore) -> None:
    async def once() -> None:
        for _ in range(AT_ONCE):
            await store.publish("bench", BODY, delay=DELAY_S)

    rounds(benchmark, runner, once)


def test_publish_from_a_hundred_coroutines(
    benchmark: BenchmarkFixture, runner: asyncio.Runner, store: AsyncStore
) -> None:
    async def once() -> None:
        await asyncio.gather(*(store.publish("bench", BODY, delay=DELAY_S) for _ in range(AT_ONCE)))

    rounds(benchmark, runner, once)


def test_publish_many(benchmark: BenchmarkFixture, runner: asyncio.Runner, store: AsyncStore) -> None:
    async def once() -> None:
        await store.publish_many("bench", [BODY] * BATCH, [DELAY_S] * BATCH)

    rounds(benchmark, runner, once)


def test_batches(benchmark: BenchmarkFixture, runner: asyncio.Runner, store: AsyncStore) -> None:
    messages = runner.run(_subscribed(store))

    async def once() -> None:
        left = BATCH
        async for batch in messages.batches(256):
            messages.ack(batch)
            left -= len(batch)
            if left <= 0:
                break
        await messages.flush()

    rounds(benchmark, runner, once, lambda: store.publish_many("bench", [BODY] * BATCH))
    runner.run(messages.close())


def test_one_by_one(benchmark: BenchmarkFixture, runner: asyncio.Runner, store: AsyncStore) -> None:
    messages = runner.run(_subscribed(store))

    async def once() -> None:
        left = BATCH
        async for message in messages:
            message.ack()
            left -= 1
            if left <= 0:
                break
        await messages.flush()

    rounds(benchmark, runner, once, lambda: store.publish_many("bench", [BODY] * BATCH))
    runner.run(messages.close())


def test_a_thousand_waiters(benchmark: BenchmarkFixture, runner: asyncio.Runner, store: AsyncStore) -> None:
    messages = runner.run(_subscribed(store))

    async def once() -> None:
        waits = [asyncio.ensure_future(messages.get()) for _ in range(BATCH)]
        await asyncio.sleep(0)
        await store.publish_many("bench", [BODY] * BATCH)
        messages.ack([message for message in await asyncio.gather(*waits) if message])
        await messages.flush()

    rounds(benchmark, runner, once)
    runner.run(messages.close())


async def _subscribed(store: AsyncStore) -> AsyncSubscription:
    return await store.subscribe("bench", group="bench", in_flight_max=4 * BATCH)
