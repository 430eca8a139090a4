"""The threads that consume the plan's subjects, from a store or a client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from delaymq.demo.frames import Deliveries, FrameWriter, Kind
from delaymq.demo.plan import Plan
from delaymq.demo.worker import Queue
from delaymq.durations import due_ms
from delaymq.errors import AmbiguousError
from delaymq.message import Message

GROUP = "demo"
PULL_MESSAGES = 256
WAIT_S = 0.1  # how long a consumer waits before it checks whether to stop
FLUSH_PAUSE_S = 0.02


class Consumers:
    """The consumers of one process. `losses` is the number of connections that it has lost."""

    def __init__(
        self,
        store: Queue,
        plan: Plan,
        frames: FrameWriter,
        subjects: Iterable[int],
        *,
        in_flight_max: int,
        hold: Callable[[], int],
        losses: Callable[[], int] = lambda: 0,
    ) -> None:
        """Subscribes.

        Args:
            store: The store or client.
            plan: The messages that are published.
            frames: Where deliveries are reported.
            subjects: The numbers of the subjects.
            in_flight_max: The maximum of unacknowledged messages of each consumer.
            hold: The number of messages that each consumer leaves unacknowledged on purpose.
            losses: The number of lost connections; at most one of them is not noticed yet.
        """
        self._plan = plan
        self._frames = frames
        self._losses = losses
        self._stopping = threading.Event()
        names = [plan.subject_name(subject) for subject in subjects]
        self._all = [_Consumer(self, store, name, in_flight_max, hold) for name in names]

    def work(self) -> list[Callable[[], None]]:
        """The functions for the threads."""
        return [*(consumer.consume for consumer in self._all), self._flush]

    def stop(self) -> None:
        """Makes the threads end."""
        self._stopping.set()

    def close(self) -> None:
        """Closes the subscriptions, after the threads have ended."""
        for consumer in self._all:
            consumer.close()

    @property
    def stopping(self) -> bool:
        """True once the threads are to end."""
        return self._stopping.is_set()

    @property
    def losses(self) -> int:
        """The number of lost connections."""
        return self._losses()

    def have_seen(self, losses: int) -> bool:
        """True once every consumer has dropped the messages of that many lost connections."""
        return all(consumer.seen_losses >= losses for consumer in self._all)

    def report_delivered(self, batch: Iterable[Message], time_us: int) -> None:
        """Reports deliveries to the parent before any of them is acknowledged."""
        deliveries = Deliveries.empty()
        for message in batch:
            number = self._plan.number_in(message.body)
            whole = number is not None and message.body == self._plan.body(number)
            intact = whole and message.subject == self._plan.subject(number or 0)
            deliveries.add(number or 0, due_ms(message.due), redelivered=message.redelivered, altered=not intact)
        self._frames.send(Kind.DELIVERED, deliveries.to_bytes(), time_us)

    def numbers_of(self, messages: Iterable[Message]) -> list[int]:
        """The numbers of intact messages."""
        return [self._plan.number_in(message.body) or 0 for message in messages]

    def _flush(self) -> None:
        while not self.stopping:
            self.flush_once()
            time.sleep(FLUSH_PAUSE_S)

    def flush_once(self, *, always_flush: bool = False) -> None:
        """Makes acknowledgements durable and reports them; ambiguous ones are not reported."""
        for consumer in self._all:
            numbers = consumer.flushed(always=always_flush)
            if numbers:
                self._frames.send_numbers(Kind.ACKED, numbers)


class _Consumer:
    """The consumer of one subject."""

    def __init__(
        self, whole: Consumers, store: Queue, subject: str, in_flight_max: int, hold: Callable[[], int]
    ) -> None:
        self._whole = whole
        self._hold = hold
        self._acknowledged: list[int] = []
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self.seen_losses = 0
        self._subscription = store.subscribe(subject, group=GROUP, in_flight_max=in_flight_max)

    def consume(self) -> None:
        """Reports each batch, and acknowledges all messages except the newest few."""
        held: list[Message] = []
        batches = self._subscription.batches(PULL_MESSAGES, wait=WAIT_S)
        while not self._whole.stopping:
            losses = self._whole.losses
            batch = next(batches, [])
            if batch:
                self._whole.report_delivered(batch, time.time_ns() // 1000)
            if losses != self.seen_losses:
                # Messages of an older connection go back to the group. This batch is of the current one.
                held.clear()
                self.seen_losses = losses
            held += batch
            done = held[: max(0, len(held) - self._hold())]
            if done:
                del held[: len(done)]
                self._acknowledge(done)

    def _acknowledge(self, done: Sequence[Message]) -> None:
        with self._lock:  # so that the list has all messages that a flush may report as ambiguous
            self._subscription.ack(done)
            self._acknowledged += self._whole.numbers_of(done)

    def flushed(self, *, always: bool) -> list[int]:
        """Messages that were acknowledged since the last call and are durable.

        A flush reports all ambiguous messages at once, so the whole list is dropped then.
        """
        with self._flushing:
            with self._lock:
                numbers, self._acknowledged = self._acknowledged, []
            if not numbers and not always:
                return []
            try:
                self._subscription.flush()
            except AmbiguousError:
                with self._lock:
                    self._acknowledged.clear()
                return []
            return numbers

    def close(self) -> None:
        self._subscription.close()
