"""Who does not wait gets what is ready: the store's own facts on their way are no reason for nothing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import delaymq
from delaymq import Closed
from delaymq.store import Durability
from faces import opened, opened_async

DURABILITIES: tuple[Durability, ...] = ("os", "disk")


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_right_after_subscribing_what_is_ready_is_there(folder: Path, durability: Durability) -> None:
    with opened(folder, durability=durability) as store:
        for number in range(20):
            subject = f"subject.{number}"
            store.publish(subject, b"now")
            with store.subscribe(subject, group="g") as messages:
                message = messages.get(timeout=0)
                assert message is not None
                assert message.body == b"now"
                message.ack()
                assert messages.get(timeout=0) is None


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_what_became_due_before_is_there_too(folder: Path, durability: Durability) -> None:
    with opened(folder, durability=durability) as store:
        store.publish("a", b"later", delay=0.05)
        while not store.status().ready:
            time.sleep(0.005)
        with store.subscribe("a", group="g") as messages:
            message = messages.get(timeout=0)
            assert message is not None
            batch = next(messages.batches(10, wait=0))
            assert batch == []


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_an_acknowledgement_makes_room_at_once(folder: Path, durability: Durability) -> None:
    with opened(folder, durability=durability) as store:
        store.publish_many("a", [b"%d" % number for number in range(50)])
        with store.subscribe("a", group="g", in_flight_max=1) as messages:
            for number in range(50):
                message = messages.get(timeout=0)
                assert message is not None
                assert int(message.body) == number
                assert messages.get(timeout=0) is None  # as many as may be out are out
                message.ack()


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_on_an_event_loop_it_is_the_same(folder: Path, durability: Durability) -> None:
    async def main() -> None:
        async with opened_async(folder, durability=durability) as store:
            for number in range(20):
                subject = f"subject.{number}"
                await store.publish(subject, b"now")
                async with store.subscribe(subject, group="g") as messages:
                    message = await messages.get(timeout=0)
                    assert message is not None
                    message.ack()
                    assert await messages.get(timeout=0) is None
            await store.publish_many("a", [b"%d" % number for number in range(50)])
            async with store.subscribe("a", group="g", in_flight_max=1) as messages:
                for number in range(50):
                    message = await messages.get(timeout=0)
                    assert message is not None
                    assert int(message.body) == number
                    assert await messages.get(timeout=0) is None
                    message.ack()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_who_subscribes_while_the_store_closes_waits_for_nothing(folder: Path) -> None:
    async def main() -> None:
        for number in range(20):
            store = await delaymq.open_async(folder, durability="os", segment_bytes=1 << 20)
            subscribing = asyncio.ensure_future(_subscribed(store))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            await store.close()
            try:
                messages = await subscribing
            except Closed:
                continue
            with pytest.raises(Closed):
                await messages.get()
            await messages.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def _subscribed(store: delaymq.AsyncStore) -> delaymq.AsyncSubscription:
    return await store.subscribe("a", group="g")


@pytest.mark.usefixtures("over_tcp")
def test_a_get_from_a_closed_store_says_so(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            messages = await store.subscribe("a", group="g")
        with pytest.raises(Closed):
            await messages.get()
        with pytest.raises(Closed):
            await messages.get(0)
        await messages.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    with opened(folder) as store:
        plain = store.subscribe("a", group="g")
    with pytest.raises(Closed):
        plain.get(0)
