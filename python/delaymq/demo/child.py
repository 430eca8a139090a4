"""The process that is killed: it has the store, publishes the plan and consumes all subjects."""

from __future__ import annotations

import sys
import threading
import time

from delaymq.demo.consumers import Consumers
from delaymq.demo.frames import FrameWriter, Kind
from delaymq.demo.publishers import PUBLISHERS, Publishers
from delaymq.demo.settings import Orders
from delaymq.demo.worker import reporting_failures, start_threads
from delaymq.receipt import Receipt
from delaymq.store import Store


def main() -> None:
    """Runs one life of the child."""
    frames = FrameWriter(int(sys.argv[1]))
    orders = Orders.from_json(sys.stdin.readline())
    began = time.perf_counter()
    with reporting_failures(frames), Store.open(orders.store, durability="disk") as store:
        facts, open_ms = store.status().recovered_facts, (time.perf_counter() - began) * 1000
        frames.send_json(Kind.OPENED, {"open_ms": open_ms, "facts": facts})
        _run(store, orders, frames)


def _run(store: Store, orders: Orders, frames: FrameWriter) -> None:
    """Publishes and consumes until the parent closes the input, then makes everything durable."""
    plan = orders.plan()
    published_all = threading.Event()
    consumers = Consumers(
        store,
        plan,
        frames,
        orders.own_subjects(),
        in_flight_max=orders.in_flight_max,
        hold=lambda: 0 if published_all.is_set() else orders.hold,
    )
    publishers = Publishers(store, orders, plan, frames)
    publishing = start_threads([publishers.publish] * PUBLISHERS, frames)
    consuming = start_threads(consumers.work(), frames)
    publishers.cancel([(number, Receipt.parse(text)) for number, text in orders.cancels])
    for thread in publishing:
        thread.join()
    published_all.set()
    frames.send(Kind.PUBLISHED_ALL)
    sys.stdin.read()
    consumers.stop()
    for thread in consuming:
        thread.join()
    consumers.close()


if __name__ == "__main__":
    main()
