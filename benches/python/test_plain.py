"""The plain face under pytest-benchmark: one publish, many, and the ways to consume."""

from __future__ import annotations

from random import Random

from pytest_benchmark.fixture import BenchmarkFixture

from delaymq import Fate, Publish, Receipt, Store

BODY = bytes(256)
DELAY_S = 600
BATCH = 1000
ROUNDS = 20


def test_publish(benchmark: BenchmarkFixture, store: Store) -> None:
    benchmark(store.publish, "bench", BODY, delay=DELAY_S)
    assert store.status().pending > 0


def test_publish_with_tags_and_attributes(benchmark: BenchmarkFixture, store: Store) -> None:
    benchmark(store.publish, "bench", BODY, delay=DELAY_S, tags=("new",), attributes={"trace": "4bf92f35"})
    assert store.status().pending > 0


def test_publish_many_of_one_subject(benchmark: BenchmarkFixture, store: Store) -> None:
    bodies, delays = [BODY] * BATCH, [float(DELAY_S)] * BATCH
    receipts = benchmark(store.publish_many, "bench", bodies, delays)
    assert len(receipts) == BATCH


def test_publish_many_of_a_list(benchmark: BenchmarkFixture, store: Store) -> None:
    messages = [Publish(f"bench.{number % 10}", BODY, delay=DELAY_S) for number in range(BATCH)]
    receipts = benchmark(store.publish_many, messages)
    assert len(receipts) == BATCH


def test_cancel(benchmark: BenchmarkFixture, store: Store) -> None:
    def published() -> tuple[tuple[Receipt], dict[str, object]]:
        return (store.publish("bench", BODY, delay=DELAY_S),), {}

    benchmark.pedantic(store.cancel, setup=published, rounds=5 * ROUNDS)
    assert store.status().pending == 0


def test_look_up(benchmark: BenchmarkFixture, store: Store) -> None:
    receipts = iter(_in_runs(store))
    found = benchmark.pedantic(lambda: store.look_up(next(receipts)), rounds=5 * ROUNDS)
    assert found.fate is Fate.PENDING


def test_look_up_by_key(benchmark: BenchmarkFixture, store: Store) -> None:
    keys = [f"order-{number}" for number in range(BATCH)]
    receipts = store.publish_many([Publish("bench", BODY, delay=DELAY_S, key=key) for key in keys])
    store.checkpoint()
    drawn = iter(Random(1).sample(keys, BATCH))
    found = benchmark.pedantic(lambda: store.look_up_key("bench", next(drawn)), rounds=5 * ROUNDS)
    assert found.receipt in receipts


def test_get_and_acknowledge(benchmark: BenchmarkFixture, store: Store) -> None:
    with store.subscribe("bench", group="bench", in_flight_max=4 * BATCH) as messages:

        def consume() -> None:
            for _ in range(BATCH):
                message = messages.get(30)
                assert message is not None
                message.ack()
            messages.flush()

        benchmark.pedantic(consume, setup=lambda: _fill(store), rounds=ROUNDS)
    assert store.status().ready == 0


def test_batches(benchmark: BenchmarkFixture, store: Store) -> None:
    with store.subscribe("bench", group="bench", in_flight_max=4 * BATCH) as messages:

        def consume() -> None:
            left = BATCH
            for batch in messages.batches(256, wait=30):
                messages.ack(batch)
                left -= len(batch)
                if left <= 0:
                    break
            messages.flush()

        benchmark.pedantic(consume, setup=lambda: _fill(store), rounds=ROUNDS)
    assert store.status().ready == 0


def test_give_back_and_get_again(benchmark: BenchmarkFixture, store: Store) -> None:
    with store.subscribe("bench", group="bench") as messages:
        store.publish("bench", BODY)

        def once() -> None:
            message = messages.get(30)
            assert message is not None
            message.nack()

        benchmark.pedantic(once, rounds=5 * ROUNDS)


def test_receipts_as_text(benchmark: BenchmarkFixture, store: Store) -> None:
    receipt = store.publish("bench", BODY, delay=DELAY_S)
    assert benchmark(lambda: Receipt.parse(str(receipt))) == receipt


def _in_runs(store: Store) -> list[Receipt]:
    """Receipts of messages that a checkpoint has copied into runs, in no order."""
    receipts = [one for _ in range(ROUNDS) for one in store.publish_many("bench", [BODY] * BATCH, 10 * DELAY_S)]
    store.checkpoint()
    return Random(1).sample(receipts, len(receipts))


def _fill(store: Store) -> None:
    store.publish_many("bench", [BODY] * BATCH)
