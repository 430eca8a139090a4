"""The clock, and a crash, under an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq.testing import Clock, crash, open_store_async, ready

START = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

Scenario = Callable[[delaymq.AsyncStore, Clock], Coroutine[None, None, None]]


def run(folder: Path, scenario: Scenario) -> None:
    async def main() -> None:
        clock = Clock(patience=60)
        async with open_store_async(folder / "store", clock) as store:
            await scenario(store, clock)

    asyncio.run(main())


def test_remind_in_thirty_days(tmp_path: Path) -> None:
    async def scenario(store: delaymq.AsyncStore, clock: Clock) -> None:
        await store.publish("reminder", b"pay the rent", delay=timedelta(days=30))
        async with store.subscribe("reminder", group="app") as messages:
            assert await messages.get(timeout=0) is None
            clock.advance(timedelta(days=30))  # on the loop itself: nobody else has a turn meanwhile
            message = await messages.get(timeout=0)
            assert message is not None
            assert message.lateness == timedelta(0)
            assert message.due == START + timedelta(days=30)
            message.ack()

    run(tmp_path, scenario)


def test_a_coroutine_acts_at_each_time_on_the_way(tmp_path: Path) -> None:
    handled: list[tuple[timedelta, int, timedelta]] = []

    async def scenario(store: delaymq.AsyncStore, clock: Clock) -> None:
        async def work() -> None:
            async with store.subscribe("jobs", group="workers") as messages:
                async for message in messages:
                    handled.append((clock.now - START, message.attempt, message.lateness))
                    if message.attempt == 4:
                        message.ack()
                        return
                    await asyncio.sleep(0)
                    message.nack(delay=HOUR * 2**message.attempt)

        working = asyncio.create_task(work())
        await asyncio.to_thread(clock.await_consumers)
        await store.publish("jobs", b"x", delay=DAY)
        await asyncio.to_thread(clock.advance, timedelta(days=30))
        await working
        assert clock.now == START + timedelta(days=30)

    run(tmp_path, scenario)
    zero = timedelta(0)
    expected = [(DAY, 1, zero), (DAY + 2 * HOUR, 2, zero), (DAY + 6 * HOUR, 3, zero), (DAY + 14 * HOUR, 4, zero)]
    assert handled == expected


def test_many_coroutines_of_many_subscriptions(tmp_path: Path) -> None:
    times: list[timedelta] = []

    async def scenario(store: delaymq.AsyncStore, clock: Clock) -> None:
        async def every_day(subject: str) -> None:
            async with store.subscribe(subject, group="workers") as messages:
                async for message in messages:
                    async with message:
                        times.append(clock.now - START)
                        await store.publish(subject, b"tick", delay=DAY)

        tasks = [asyncio.create_task(every_day(f"tick-{number}")) for number in range(10)]
        await asyncio.to_thread(clock.await_consumers, 10)
        for number in range(10):
            await store.publish(f"tick-{number}", b"tick", delay=DAY)
        await asyncio.to_thread(clock.advance, timedelta(days=5))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(tmp_path, scenario)
    assert times == [day * DAY for day in range(1, 6) for _ in range(10)]


def test_coroutines_of_one_group_with_subscriptions_of_their_own_are_waited_for(tmp_path: Path) -> None:
    handled: list[tuple[bytes, int, timedelta]] = []

    async def scenario(store: delaymq.AsyncStore, clock: Clock) -> None:
        async def work() -> None:
            async with store.subscribe("jobs", group="workers") as messages:
                async for message in messages:
                    began = clock.now - START
                    await asyncio.sleep(0.02)  # real time, in which the clock stands still
                    handled.append((message.body, message.attempt, began))
                    assert clock.now - START == began
                    if message.attempt == 1:
                        message.nack(delay=HOUR)
                    else:
                        message.ack()

        await store.publish_many("jobs", [b"a", b"b"], [HOUR, 10 * HOUR])
        tasks = [asyncio.create_task(work()) for _ in range(2)]
        await asyncio.to_thread(clock.await_consumers, 2)
        await asyncio.to_thread(clock.advance, DAY)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(tmp_path, scenario)
    assert handled == [(b"a", 1, HOUR), (b"a", 2, 2 * HOUR), (b"b", 1, 10 * HOUR), (b"b", 2, 11 * HOUR)]


def test_a_crash_is_awaited(tmp_path: Path) -> None:
    async def scenario(store: delaymq.AsyncStore, clock: Clock) -> None:
        await store.publish("jobs", b"later", delay=DAY)
        await store.publish("jobs", b"now", tags=["a"], attributes={"k": "v"}, message_id="one")
        messages = await store.subscribe("jobs", group="workers")
        held = await messages.get(timeout=0)
        assert held is not None
        async with crash(store) as born:
            assert not store.is_open
            with pytest.raises(delaymq.Closed):
                await store.publish("jobs", b"x")
            clock.advance(DAY)
            again, later = ready(born, "jobs", "workers")
            assert (again.body, again.attempt, again.redelivered, later.body) == (b"now", 2, True, b"later")
            assert (again.message_id, again.tags, again.attributes) == ("one", ("a",), {"k": "v"})
        with pytest.raises(delaymq.Closed):
            await crash(born)

    run(tmp_path, scenario)
