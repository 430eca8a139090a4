"""Calls of an asyncio store that are cancelled while they wait: each is done, or it is not."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from boundary.test_asyncio import drained, drained_to_the_end, run
from delaymq import AsyncStore, Outcome, Receipt
from delaymq.store import Durability
from faces import opened_async

ROUNDS = 40


async def cancelled_somewhen(chance: random.Random, call: Coroutine[Any, Any, Any], patience: float = 1) -> object:
    """What it answered; or None where it was cancelled first. The more patience, the longer it may take."""
    task = asyncio.ensure_future(call)
    for _ in range(chance.randrange(5)):
        await asyncio.sleep(chance.choice([0, 0, 0, 0.0005, 0.003]) * patience)
    task.cancel()
    try:
        answer: object = await task
    except asyncio.CancelledError:
        return None
    return answer


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", ["os", "disk"])
def test_a_cancelled_publish_of_many_stores_all_or_none(folder: Path, durability: Durability) -> None:
    chance, many = random.Random(1), 30

    async def main() -> None:
        async with opened_async(folder, durability=durability) as store, store.subscribe("a", group="g") as messages:
            answered = set()
            for number in range(ROUNDS):
                bodies = [b"%d %d" % (number, place) for place in range(many)]
                if await cancelled_somewhen(chance, store.publish_many("a", bodies)) is not None:
                    answered.add(number)
            bodies = [message.body for message in await drained_to_the_end(store, messages)]
            assert len(bodies) == len(set(bodies)), "none is doubled"
            stored = Counter(int(body.split()[0]) for body in bodies)
            assert set(stored.values()) <= {many}
            assert answered <= stored.keys(), "what was answered is stored"
            assert len(answered) < ROUNDS, "some were cancelled"

    run(main())


@pytest.mark.usefixtures("over_tcp")
@pytest.mark.parametrize("durability", ["os", "disk"])
def test_a_cancelled_cancel_took_its_message_back_or_not(folder: Path, durability: Durability) -> None:
    chance = random.Random(2)

    async def main() -> None:
        async with opened_async(folder, durability=durability) as store:
            receipts: list[Receipt] = []
            told: list[object] = []
            patience, until = 1.0, time.monotonic() + 40
            # A slow disk answers none within the pauses that are long enough elsewhere.
            while set(told) != {None, Outcome.DONE} and time.monotonic() < until:
                some = list(await store.publish_many("a", [b""] * ROUNDS, 3600))
                told += [await cancelled_somewhen(chance, store.cancel(receipt), patience) for receipt in some]
                receipts += some
                patience = min(patience * 4, 256)
            assert set(told) == {None, Outcome.DONE}, "some were cancelled, and some were not"
            pending = (await store.status()).pending
            assert pending <= len(receipts) - sum(outcome is Outcome.DONE for outcome in told)
            # Whatever became of them, the next one says so.
            assert await store.cancel_many(receipts) == [Outcome.DONE] * len(receipts)
            assert (await store.status()).pending == 0

    run(main())


@pytest.mark.usefixtures("over_tcp")
def test_a_cancelled_subscribe_leaves_no_consumer(folder: Path) -> None:
    chance = random.Random(3)

    async def subscribe(store: AsyncStore) -> bool:
        subscription = await store.subscribe("a", group="g")
        await subscription.close()
        return True

    async def main() -> None:
        async with opened_async(folder) as store:
            await store.publish_many("a", [b"%d" % number for number in range(50)])
            told = [await cancelled_somewhen(chance, subscribe(store)) for _ in range(ROUNDS)]
            assert None in told, "some were cancelled"
            async with store.subscribe("a", group="g") as messages:
                found = [int(message.body) for message in await drained(messages, 50)]
                assert sorted(found) == list(range(50))
                # What a cancelled one began ends on the thread that it ran on.
                for _ in range(500):
                    if (await store.groups())[0].consumers == 1:
                        return
                    await asyncio.sleep(0.01)
                raise AssertionError("a consumer is left")

    run(main())
