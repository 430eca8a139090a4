"""A process that publishes or consumes over TCP, and lives on when the server is killed.

Each further line of its standard input says that all is published, so that nothing is held any more.
"""

from __future__ import annotations

import logging
import sys
import threading

from delaymq.client.threads.client import Client, connect
from delaymq.demo.consumers import WAIT_S, Consumers
from delaymq.demo.frames import FrameWriter, Kind
from delaymq.demo.orders import Orders
from delaymq.demo.publishers import PUBLISHERS, Publishers
from delaymq.demo.worker import started, telling_failures

__all__ = ["main"]


class Losses(logging.Handler):
    """Counts the connections that were lost, of which a client tells in the log before anybody notices."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        """One more, if that is what it tells of."""
        if getattr(record, "action", "") == "connection_lost":
            with self._changed:
                self.count += 1
                self._changed.notify_all()

    def wait(self, known: int) -> int:
        """Waits until there are more than are known; how many."""
        with self._changed:
            self._changed.wait_for(lambda: self.count > known)
            return self.count


class Remote:
    """The work of one process."""

    def __init__(self, client: Client, orders: Orders, frames: FrameWriter, losses: Losses) -> None:
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
        """Works until the parent says stop, then makes everything durable."""
        self._tell_opened()
        started([self._watch], self._frames)
        consuming = started(self._consumers.work(), self._frames)
        if self._publishes:
            started([self._publish_all], self._frames)
        for _ in sys.stdin:
            self._is_held = False
        self._stopping.set()
        self._consumers.stop()
        for thread in consuming:
            thread.join()
        self._consumers.close()

    def _publish_all(self) -> None:
        for thread in started([self._publishers.publish] * PUBLISHERS, self._frames):
            thread.join()
        self._frames.send(Kind.PUBLISHED_ALL)

    def _watch(self) -> None:
        """Tells of each lost connection once nothing of it is in anybody's hands, and when there is another."""
        known = 0
        while True:
            known = self._losses.wait(known)
            while not self._consumers.have_noticed(known):
                if self._stopping.wait(WAIT_S / 10):
                    return
            self._consumers.flush_once(all_of_them=True)
            self._frames.send(Kind.LOST)
            self._tell_opened()

    def _tell_opened(self) -> None:
        """Waits until the server answers."""
        status = self._client.status()
        self._frames.send_json(Kind.OPENED, {"open_ms": status.recovered_ms, "facts": status.recovered_facts})


def main() -> None:
    """Runs the process to its end."""
    frames = FrameWriter(int(sys.argv[1]))
    orders = Orders.from_json(sys.stdin.readline())
    losses = Losses()
    logging.getLogger("delaymq").addHandler(losses)
    with telling_failures(frames), connect(orders.store) as client:
        Remote(client, orders, frames, losses).run()


if __name__ == "__main__":
    main()
