"""A coroutine that is cancelled loses nothing and doubles nothing."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

import delaymq
from boundary.test_asyncio import drained, drained_to_the_end, one, one_batch, run
from delaymq import AsyncStore, AsyncSubscription
from delaymq.store import Durability
from faces import opened_async


@pytest.mark.usefixtures("over_tcp")
def test_a_message_given_to_a_cancelled_get_goes_to_the_next_one_first(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            for subject in map("s{}".format, itertools.count()):
                async with store.subscribe(subject, group="g") as messages:
                    if await _is_met(store, messages, subject):
                        return

    run(main())


async def _is_met(store: AsyncStore, messages: AsyncSubscription, subject: str) -> bool:
    """Cancels two gets between being given messages and being run. False where the messages came one after the other,
    as on a busy machine, and the first get had run before the second was given its own.
    """
    first = asyncio.create_task(messages.get())
    second = asyncio.create_task(one_batch(messages, 3))
    await asyncio.sleep(0.05)
    await store.publish_many(subject, [b"%d" % number for number in range(4)])
    while messages._delivery._waiting and not first.done():  # noqa: ASYNC110 - that moment is wanted
        await asyncio.sleep(0)
    if first.done():
        await second
        return False
    first.cancel()
    second.cancel()
    ended = await asyncio.gather(first, second, return_exceptions=True)
    given = [one_ for one_ in ended if not isinstance(one_, BaseException)]
    found = await drained(messages, 4)
    assert given == []
    assert [message.body for message in found] == [b"0", b"1", b"2", b"3"]
    assert {(message.attempt, message.redelivered) for message in found} == {(1, False)}
    return True


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", ["os", "disk"])
@pytest.mark.parametrize("seed", range(5))
def test_gets_cancelled_at_any_moment_lose_and_double_nothing(folder: Path, durability: Durability, seed: int) -> None:
    chance = random.Random(seed)
    count = 300

    async def main() -> None:
        async with opened_async(folder, durability=durability) as store, store.subscribe("a", group="g") as messages:
            found: list[tuple[bytes, int]] = []

            async def consume() -> None:
                message = await messages.get()
                assert message is not None
                found.append((message.body, message.attempt))
                message.ack()

            async def publish() -> None:
                for number in range(count):
                    await store.publish("a", b"%d" % number, delay=chance.random() / 50)
                    await asyncio.sleep(0)

            publishing = asyncio.create_task(publish())
            while len(found) < count:
                waits = [asyncio.create_task(consume()) for _ in range(chance.randrange(1, 12))]
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002]))
                for wait in chance.sample(waits, chance.randrange(len(waits) + 1)):
                    wait.cancel()
                await asyncio.wait(waits, timeout=chance.choice([0, 0.001, 0.01]))
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
            await publishing
            assert Counter(found) == Counter((b"%d" % number, 1) for number in range(count))
            assert await messages.get(0.1) is None

    run(main())


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", ["os", "disk"])
def test_a_cancelled_publish_happened_once_or_not_at_all(folder: Path, durability: Durability) -> None:
    async def main() -> None:
        async with opened_async(folder, durability=durability, segment_bytes=1 << 16) as store:
            body, tasks = bytes(2000), []
            for number in range(300):
                tasks.append(asyncio.create_task(store.publish("a", b"%d " % number + body)))
                if number % 7 == 0:
                    await asyncio.sleep(0.0002)
                if number % 3 == 0:
                    tasks[-1 - number % 5 if number > 5 else -1].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            answered = {number for number, end in enumerate(ended) if not isinstance(end, BaseException)}
            assert all(isinstance(end, asyncio.CancelledError | delaymq.Receipt) for end in ended)
            assert 50 < len(answered) < 300
            async with store.subscribe("a", group="g") as messages:
                stored = Counter(int(message.body.split()[0]) for message in await drained_to_the_end(store, messages))
            assert set(stored.values()) == {1}
            assert answered <= set(stored)

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_a_cancelled_flush_takes_no_acknowledgement_with_it(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder, durability="disk") as store, store.subscribe("a", group="g") as messages:
            await store.publish_many("a", [b""] * 50)
            for _ in range(50):
                (await one(messages)).ack()
                flushing = asyncio.create_task(messages.flush())
                await asyncio.sleep(0)
                flushing.cancel()
                await asyncio.gather(flushing, return_exceptions=True)
            await messages.flush(5)
            assert (await store.status()).ready == 0
        async with opened_async(folder) as store, store.subscribe("a", group="g") as messages:
            assert await messages.get(0.2) is None

    run(main())


def test_a_cancelled_open_leaves_the_folder_free(folder: Path) -> None:
    async def main() -> None:
        for turns in range(6):
            opening = asyncio.ensure_future(delaymq.open_async(folder).__aenter__())
            for _ in range(turns):
                await asyncio.sleep(0.001)
            opening.cancel()
            ended = (await asyncio.gather(opening, return_exceptions=True))[0]
            if isinstance(ended, delaymq.AsyncStore):
                await ended.close()
            for _ in range(1000):
                try:
                    async with opened_async(folder):
                        break
                except delaymq.Locked:
                    await asyncio.sleep(0.005)
            else:
                raise AssertionError("the folder was not let go")

    run(main())


def test_a_cancelled_close_closes(folder: Path) -> None:
    async def main() -> None:
        store = await delaymq.open_async(folder)
        await store.publish("a", b"1", delay=3600)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await store.close()
        async with opened_async(folder) as again:
            assert (await again.status()).pending == 1

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_a_timeout_around_a_get_takes_no_message(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g") as messages:
            publishing = asyncio.create_task(_trickle(store))
            found: list[int] = []
            while len(found) < 100:
                try:
                    message = await asyncio.wait_for(messages.get(), 0.002)
                except TimeoutError:
                    continue
                assert message is not None
                found.append(int(message.body))
                message.ack()
            await publishing
            assert sorted(found) == list(range(100))
            assert len(messages._delivery._waiting) == 0

    run(main())


async def _trickle(store: delaymq.AsyncStore) -> None:
    for number in range(100):
        await store.publish("a", b"%d" % number)
        await asyncio.sleep(0.002)
