from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

import delaymq
from delaymq import Closed, Outcome, Publish, Receipt, Store


def test_a_receipt_is_one_short_line_that_reads_back(store: Store) -> None:
    before = datetime.now(UTC)
    receipt = store.publish("orders", b"42", delay=timedelta(minutes=30))
    text = str(receipt)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 80
    again = Receipt.parse(text)
    assert again == receipt
    assert hash(again) == hash(receipt)
    assert again.sequence == receipt.sequence
    assert timedelta(0) <= receipt.due - before - timedelta(minutes=30) < timedelta(seconds=5)


def test_receipts_are_a_sequence_in_the_order_of_the_messages(store: Store) -> None:
    receipts = store.publish_many("orders", [b"a", b"b", b"c"], [3600, 7200, timedelta(hours=3)])
    assert len(receipts) == 3
    assert [receipt.sequence for receipt in receipts] == [receipts[0].sequence + at for at in range(3)]
    assert receipts[-1] == receipts[2]
    assert receipts[::-1] == [receipts[2], receipts[1], receipts[0]]
    assert receipts[1].due - receipts[0].due == timedelta(hours=1)
    with pytest.raises(IndexError):
        receipts[3]
    with pytest.raises(IndexError):
        receipts[-4]


def test_delays_of_many_are_rounded_up_but_for_the_last_bits_of_a_float(store: Store) -> None:
    delays = [3600.0, 3602.007, 3600.0001, 3601.0005, 3600]
    dues = [receipt.due for receipt in store.publish_many("orders", [b"x"] * len(delays), delays)]
    assert [(due - dues[0]) // timedelta(milliseconds=1) for due in dues] == [0, 2007, 1, 1001, 0]


def test_an_empty_batch_stores_nothing(store: Store) -> None:
    before = store.status().accepted
    assert len(store.publish_many([])) == 0
    assert len(store.publish_many("orders", [])) == 0
    assert store.status().accepted == before


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_a_call_is_taken_that_is_larger_than_the_first_segments_of_an_open(
    tmp_path: Path, durability: Literal["disk", "os"]
) -> None:
    body = bytes(4 << 20)
    with delaymq.open(tmp_path / "large", durability=durability, segment_bytes=64 << 20) as store:
        assert len(store.publish_many("a", [body] * 3, 3600)) == 3
        store.publish("a", b"small", delay=3600)
        assert len(store.publish_many("a", [body] * 7, 3600)) == 7
        assert store.status().pending == 11


def test_each_message_of_a_batch_has_its_own_subject_and_time(store: Store) -> None:
    with store.subscribe("a", group="g") as first, store.subscribe("b", group="g") as second:
        store.publish_many(
            [Publish("a", b"1"), Publish("b", b"2", at=datetime.now(UTC)), Publish("a", b"3", delay=0.05)]
        )
        found = [first.get(5), first.get(5), second.get(5)]
        assert [message.body for message in found if message] == [b"1", b"3", b"2"]
        assert first.get(0) is None


def test_what_is_published_is_never_handed_over_early(store: Store) -> None:
    with store.subscribe("a", group="g") as messages:
        published = time.time()
        store.publish_many(
            "a", [b"%d" % delay_ms for delay_ms in range(0, 300, 10)], [ms / 1000 for ms in range(0, 300, 10)]
        )
        for _ in range(30):
            message = messages.get(5)
            assert message is not None
            assert time.time() >= published + int(message.body) / 1000
            assert message.lateness >= timedelta(0)
            message.ack()


def test_a_cancel_is_answered_truthfully_and_the_same_again(store: Store) -> None:
    with store.subscribe("a", group="g") as messages:
        receipt = store.publish("a", b"cancelled", delay=3)
        assert store.cancel(receipt) is Outcome.DONE
        assert store.cancel(Receipt.parse(str(receipt))) is Outcome.DONE
        gone = store.publish("a", b"delivered")
        message = messages.get(5)
        assert message is not None
        assert message.body == b"delivered"
        assert store.cancel(gone) is Outcome.ALREADY_DISPATCHED
        left = receipt.due - datetime.now(UTC)
        assert messages.get(max(left, timedelta(0)) + timedelta(seconds=0.3)) is None


def test_cancels_of_many_are_answered_in_order(store: Store) -> None:
    receipts = store.publish_many("a", [b""] * 5, 3600)
    store.cancel(receipts[2])
    assert store.cancel_many(receipts) == [Outcome.DONE] * 5
    assert store.cancel_many([]) == []
    assert store.status().pending == 0


def test_a_closed_store_refuses_and_closes_again(folder: Path) -> None:
    store = delaymq.open(folder, durability="os")
    messages = store.subscribe("a", group="g")
    store.close()
    store.close()
    assert store.status().closed
    for call in (
        lambda: store.publish("a", b""),
        lambda: store.publish_many("a", [b""]),
        lambda: store.cancel_many([]),
        lambda: store.subscribe("a", group="g"),
        store.checkpoint,
        lambda: messages.get(1),
    ):
        with pytest.raises(Closed):
            call()


def test_threads_publish_at_once_and_nothing_is_mixed_up(store: Store) -> None:
    def publish(name: str) -> None:
        for number in range(50):
            receipts[name].append(store.publish(name, f"{name} {number}".encode()))

    receipts: dict[str, list[Receipt]] = {f"subject.{thread}": [] for thread in range(8)}
    threads = [threading.Thread(target=publish, args=(name,)) for name in receipts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({receipt for found in receipts.values() for receipt in found}) == 400
    for name in receipts:
        with store.subscribe(name, group="g") as messages:
            found = [message.body for message in (messages.get(5) for _ in range(50)) if message]
        assert found == [f"{name} {number}".encode() for number in range(50)]


def test_progress_is_told_and_what_it_raises_comes_out(folder: Path) -> None:
    with delaymq.open(folder, durability="os") as store:
        store.publish_many("a", [b""] * 100, 3600)
    seen: list[delaymq.Progress] = []
    delaymq.open(folder, durability="os", progress=seen.append).close()
    assert seen
    assert seen == sorted(seen, key=lambda progress: progress.facts)

    def refuse(_: delaymq.Progress) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        delaymq.open(folder, durability="os", progress=refuse)
    with delaymq.open(folder, durability="os") as store:
        assert store.status().pending == 100
