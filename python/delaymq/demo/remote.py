"""A process that publishes or consumes over TCP, and outlives the server.

Each further line of its standard input means that all is published, so that no message is held any more.
"""

from __future__ import annotations

import logging
import sys
import threading

from delaymq.client.threads.client import Client, connect
from delaymq.demo.consumers import WAIT_S, Consumers
from delaymq.demo.frames import FrameWriter, Kind
from delaymq.demo.publishers import PUBLISHERS, Publishers
from delaymq.demo.settings import Orders
from delaymq.demo.worker import reporting_failures, start_threads
from delaymq.errors import Closed


class LostConnections(logging.Handler):
    """Counts lost connections, which a client logs before any caller notices."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        """Counts a log record of a lost connection."""
        if getattr(record, "action", "") == "connection_lost":
            with self._changed:
                self.count += 1
                self._changed.notify_all()

    def wait(self, known: int) -> int:
        """Waits until there are more than `known`, and returns the number."""
        with self._changed:
            self._changed.wait_for(lambda: self.count > known)
            return self.count


class Remote:
    """The work of one process."""

    def __init__(self, client: Client, orders: Orders, frames: FrameWriter, losses: LostConnections) -> None:
        self._client = client
        self._frames = frames
        self._losses = losses
        self._is_held = True
        self._stopping = threading.Event()
        plan = orders.plan()
        self._publishers = Publishers(client, orders, plan, frames)
        self._publishes = orders.publishes
        self._consumers = Consumers(
            client,
            plan,
            frames,
            orders.own_subjects(),
            in_flight_max=orders.in_flight_max,
            hold=lambda: orders.hold if self._is_held else 0,
            losses=lambda: losses.count,
        )

    def run(self) -> None:
        """Works until the parent closes the input, then makes everything durable."""
        self._report_opened()
        start_threads([self._watch], self._frames)
        consuming = start_threads(self._consumers.work(), self._frames)
        if self._publishes:
            start_threads([self._publish_all], self._frames)
        for _ in sys.stdin:
            self._is_held = False
        self._stopping.set()
        self._consumers.stop()
        for thread in consuming:
            thread.join()
        self._consumers.close()

    def _publish_all(self) -> None:
        for thread in start_threads([self._publishers.publish] * PUBLISHERS, self._frames):
            thread.join()
        self._frames.send(Kind.PUBLISHED_ALL)

    def _watch(self) -> None:
        """Reports each lost connection once all its messages are dropped, and the next connection."""
        known = 0
        while True:
            known = self._losses.wait(known)
            while not self._consumers.have_seen(known):
                if self._stopping.wait(WAIT_S / 10):
                    return
            self._consumers.flush_once(always_flush=True)
            self._frames.send(Kind.LOST)
            try:
                self._report_opened()
            except Closed:
                # The parent has given up the run before the server answered.
                if not self._stopping.is_set():
                    raise
                return

    def _report_opened(self) -> None:
        """Waits until the server answers, and reports its recovery."""
        status = self._client.status()
        self._frames.send_json(Kind.OPENED, {"open_ms": status.recovered_ms, "facts": status.recovered_facts})


def main() -> None:
    """Runs the process to its end."""
    frames = FrameWriter(int(sys.argv[1]))
    orders = Orders.from_json(sys.stdin.readline())
    losses = LostConnections()
    logging.getLogger("delaymq").addHandler(losses)
    with reporting_failures(frames), connect(orders.store) as client:
        Remote(client, orders, frames, losses).run()


if __name__ == "__main__":
    main()
