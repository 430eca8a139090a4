"""The asyncio face: one loop, no thread that waits, nothing lost where a coroutine is cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import (
    AlreadySettled,
    AsyncMessage,
    AsyncStore,
    AsyncSubscription,
    Closed,
    Locked,
    Outcome,
    Publish,
    Receipt,
    TimedOut,
    WrongLoop,
)
from delaymq.store import Durability
from faces import is_over_tcp, opened_async


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 60))


def waiting_threads() -> int:
    """Those that stores and clients on a loop have begun; a plain store's thread that ends by itself may be there."""
    return sum(thread.name.startswith(("delaymq-blocking", "delaymq-client")) for thread in threading.enumerate())


async def one(messages: AsyncSubscription) -> AsyncMessage:
    message = await messages.get(20)
    assert message is not None
    return message


async def one_batch(messages: AsyncSubscription, size: int) -> list[AsyncMessage]:
    return await anext(messages.batches(size))


async def drained(messages: AsyncSubscription, count: int, quiet: float = 0.3) -> list[AsyncMessage]:
    """So many, however long each takes to come, and what comes after them though nothing should."""
    found: list[AsyncMessage] = []
    while (message := await messages.get(20 if len(found) < count else quiet)) is not None:
        message.ack()
        found.append(message)
    return found


async def drained_to_the_end(store: AsyncStore, messages: AsyncSubscription) -> list[AsyncMessage]:
    """All that the only group has, where nobody knows how many: until the store has nothing left for it either."""
    found: list[AsyncMessage] = []
    while True:
        found += await drained(messages, 0)
        await messages.flush()
        status = await store.status()
        if status.applied == status.accepted and status.pending + status.ready == 0:
            return found


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", ["os", "disk"])
def test_what_is_published_is_handed_over_once(folder: Path, durability: Durability) -> None:
    async def main() -> None:
        async with opened_async(folder, durability=durability) as store, store.subscribe("a", group="g") as messages:
            # What was published in between is due long before these two, also where the machine was slow with it.
            receipt = await store.publish("a", b"later", delay=4)
            cancelled = await store.publish("a", b"never", delay=3)
            assert await store.cancel(cancelled) is Outcome.DONE
            await store.publish("a", b"now", tags=("x",), attributes={"k": "v"}, message_id="mine")
            receipts = await store.publish_many("a", [b"1", b"2"], [0, 0.1])
            await store.publish_many([Publish("a", b"3", level=1)])
            found = [await one(messages) for _ in range(5)]
            assert [message.body for message in found] == [b"now", b"1", b"2", b"3", b"later"]
            assert (found[0].tags, found[0].attributes, found[0].message_id) == (("x",), {"k": "v"}, "mine")
            assert found[4].receipt == receipt == Receipt.parse(found[4].message_id)
            assert [found[1].receipt, found[2].receipt] == list(receipts)
            messages.ack(found)
            await messages.flush(5)
            assert await messages.get(0) is None
            assert (await store.status()).ready == 0
        with pytest.raises(Closed):
            await store.publish("a", b"")
        assert is_over_tcp() or (await store.status()).closed

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_a_block_acknowledges_at_its_end_and_gives_back_what_it_raises_on(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g") as messages:
            await store.publish("a", b"1")
            with pytest.raises(KeyError):
                async with await one(messages):
                    raise KeyError
            async for message in messages:
                async with message:
                    assert (message.body, message.attempt, message.redelivered) == (b"1", 2, True)
                break
            await messages.flush()
            assert message.settled
            with pytest.raises(AlreadySettled):
                message.nack(3600)
            assert await messages.get(0.2) is None

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_ten_thousand_wait_on_two_threads_and_use_no_time(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g", in_flight_max=20_000) as messages:
            waits = [asyncio.create_task(messages.get()) for _ in range(10_000)]
            await asyncio.sleep(0.5)
            assert waiting_threads() <= 2
            used = time.process_time()
            await asyncio.sleep(1)
            assert time.process_time() - used < 0.2
            await store.publish_many("a", [b"%d" % number for number in range(10_000)])
            found = await asyncio.gather(*waits)
            assert [int(message.body) for message in found if message] == list(range(10_000))
            assert waiting_threads() <= 2
            messages.ack(message for message in found if message)

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_many_subscriptions_wait_each_for_its_own(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            names = [f"subject.{number}" for number in range(50)]
            consumers = await asyncio.gather(*(_subscribed(store, name) for name in names))
            waits = [asyncio.create_task(consumer.get(20)) for consumer in consumers]
            await asyncio.sleep(0.1)
            for name in reversed(names):
                await store.publish(name, name.encode(), delay=0.05)
            found = await asyncio.gather(*waits)
            assert [message.body.decode() for message in found if message] == names
            await asyncio.gather(*(consumer.close() for consumer in consumers))

    run(main())


async def _subscribed(store: AsyncStore, name: str) -> AsyncSubscription:
    return await store.subscribe(name, group="g")


@pytest.mark.usefixtures("over_tcp")
def test_a_timeout_is_kept_and_so_is_a_wait(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g") as messages:
            started = time.monotonic()
            assert await messages.get(0.25) is None
            assert 0.24 <= time.monotonic() - started < 1.5
            assert await messages.get(0) is None
            batches = messages.batches(10, wait=0.05)
            assert await anext(batches) == []
            await store.publish_many("a", [b""] * 25)
            sizes = []
            async for batch in batches:
                sizes.append(len(batch))
                messages.ack(batch)
                if sum(sizes) == 25:
                    break
            assert max(sizes) == 10

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_no_more_than_in_flight_max_are_out_and_settling_makes_room(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g", in_flight_max=5) as messages:
            await store.publish_many("a", [b""] * 20)
            held = [await one(messages) for _ in range(5)]
            waiting = asyncio.create_task(messages.get(5))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            held[0].ack()
            assert await waiting is not None
            messages.nack(held[1:], delay=3600)
            assert await messages.get(5) is not None

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_what_is_given_back_comes_again_though_joining_the_retries_waits(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder, durability="disk") as store, store.subscribe("a", group="g") as messages:
            await store.publish_many("a", [b"%d" % number for number in range(20)])
            for _ in range(20):
                (await one(messages)).nack(0.01)
            again = [await one(messages) for _ in range(20)]
            assert sorted(int(message.body) for message in again) == list(range(20))
            assert {message.attempt for message in again} == {2}
            messages.ack(again)

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_a_backlog_that_must_be_read_from_the_disk_is_read_elsewhere(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder, segment_bytes=1 << 16) as store:
            for part in range(20):
                await store.publish_many("a", [b"%05d" % (part * 100 + number) * 20 for number in range(100)])
            async with store.subscribe("a", group="g") as messages:
                found = [message.body[:5] for message in await drained(messages, 2000)]
                assert found == [b"%05d" % number for number in range(2000)]

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_the_loop_goes_on_while_there_is_no_room(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder, segment_bytes=1 << 18) as store:
            rounds = [await _stood_still(store) for _ in range(3)]
            assert (await store.status()).pending == 30_000
            assert waiting_threads() <= 2
            # A loop that waits with its callers stands still for the whole of every round. A machine that was busy
            # elsewhere for a moment spoils the round that it was in.
            assert any(longest < min(whole / 2, 0.5) for longest, whole in rounds), rounds

    run(main())


async def _stood_still(store: AsyncStore) -> tuple[float, float]:
    """For how long at once the loop did nothing else while it published, and how long that took."""
    ticks = [time.monotonic()]

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.005)
            ticks.append(time.monotonic())

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(store.publish_many("a", [bytes(1000)] * 100, 3600) for _ in range(100)))
    ticks.append(time.monotonic())
    ticking.cancel()
    return max(then - before for before, then in pairwise(ticks)), ticks[-1] - ticks[0]


@pytest.mark.usefixtures("over_tcp")
def test_stop_ends_waits_from_any_thread_and_closing_does_so_too(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            messages = await store.subscribe("a", group="g")
            waits = [asyncio.create_task(messages.get()) for _ in range(3)]
            iteration = asyncio.create_task(drained(messages, 1))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(messages.stop)
            assert await asyncio.gather(*waits) == [None] * 3
            assert await iteration == []
            assert await messages.get() is None
            await messages.close()
            await messages.close()
            other = await store.subscribe("b", group="g")
            waiting = asyncio.create_task(other.get())
            await asyncio.sleep(0.05)
        assert await waiting is None
        await store.close()

    run(main())


def test_a_flush_that_takes_too_long_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g") as messages:
            await store.publish("a", b"")
            (await one(messages)).ack()

            async def never(_: int) -> None:
                await asyncio.sleep(60)

            monkeypatch.setattr(type(messages._event_loop.wakeups), "reached", staticmethod(never))
            with pytest.raises(TimedOut):
                await messages.flush(0.05)
            monkeypatch.undo()
            await messages.flush(5)

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_another_loop_or_thread_is_refused(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store, store.subscribe("a", group="g") as messages:
            await store.publish("a", b"")
            message = await one(messages)

            async def elsewhere() -> None:
                calls: list[Coroutine[Any, Any, object]] = [
                    store.publish("a", b""),
                    store.publish_many("a", [b""]),
                    store.cancel_many([]),
                    store.status(),
                    store.close(),
                    messages.get(),
                    messages.flush(),
                    messages.close(),
                    one_batch(messages, 5),
                ]
                for call in calls:
                    with pytest.raises(WrongLoop) as caught:
                        await call
                    assert isinstance(caught.value, RuntimeError)
                with pytest.raises(WrongLoop):
                    async with store.subscribe("a", group="g"):
                        pass
                for settle in (message.ack, message.nack, lambda: messages.ack([message])):
                    with pytest.raises(WrongLoop):
                        settle()

            await asyncio.to_thread(asyncio.run, elsewhere())
            with pytest.raises(WrongLoop):
                await asyncio.to_thread(message.ack)
            assert not message.settled
            message.ack()

    run(main())


def test_a_second_open_of_one_folder_is_told_who_has_it(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder):
            with pytest.raises(Locked, match="this process has it open already"):
                async with delaymq.open_async(folder):
                    pass
            with pytest.raises(Locked, match="this process"):
                delaymq.open(folder)
        async with opened_async(folder):
            pass

    run(main())
