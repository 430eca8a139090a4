"""The threads that consume the plan's subjects, whatever store delivers them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from delaymq.demo.frames import Deliveries, FrameWriter, Kind
from delaymq.demo.plan import Plan
from delaymq.durations import due_ms
from delaymq.errors import AmbiguousError
from delaymq.message import Message

if TYPE_CHECKING:
    from delaymq.demo.worker import Queue

__all__ = ["GROUP", "WAIT_S", "Consumers"]

GROUP = "demo"
PULL_MESSAGES = 256
WAIT_S = 0.1  # how long a consumer waits before it looks whether it should stop
FLUSH_PAUSE_S = 0.02


class Consumers:
    """Those of all subjects of one process. `losses` counts the connections that it has lost."""

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
            store: What delivers.
            plan: What was published.
            frames: Where deliveries are told.
            subjects: The numbers of the subjects.
            in_flight_max: How many messages each consumer may hold.
            hold: How many messages each consumer keeps unacknowledged on purpose.
            losses: How many connections were lost; never more than one at a time that is not noticed.
        """
        self._plan = plan
        self._frames = frames
        self._losses = losses
        self._stopping = threading.Event()
        names = [plan.subject_name(subject) for subject in subjects]
        self._all = [_Consumer(self, store, name, in_flight_max, hold) for name in names]

    def work(self) -> list[Callable[[], None]]:
        """What each thread is to do."""
        return [*(consumer.consume for consumer in self._all), self._flush]

    def stop(self) -> None:
        """Lets the threads end."""
        self._stopping.set()

    def close(self) -> None:
        """Ends the subscriptions, whose threads have ended."""
        for consumer in self._all:
            consumer.close()

    @property
    def stopping(self) -> bool:
        """True once they are to end."""
        return self._stopping.is_set()

    @property
    def losses(self) -> int:
        """How many connections were lost."""
        return self._losses()

    def have_noticed(self, losses: int) -> bool:
        """True once every consumer let go of what it had when that many connections were lost."""
        return all(consumer.noticed >= losses for consumer in self._all)

    def tell_delivered(self, batch: Iterable[Message], time_us: int) -> None:
        """Tells the parent before anything is acknowledged."""
        deliveries = Deliveries.empty()
        for message in batch:
            number = self._plan.number_in(message.body)
            whole = number is not None and message.body == self._plan.body(number)
            intact = whole and message.subject == self._plan.subject(number or 0)
            deliveries.add(number or 0, due_ms(message.due), redelivered=message.redelivered, altered=not intact)
        self._frames.send(Kind.DELIVERED, deliveries.to_bytes(), time_us)

    def numbers_of(self, messages: Iterable[Message]) -> list[int]:
        """The numbers of messages that were seen to be intact."""
        return [self._plan.number_in(message.body) or 0 for message in messages]

    def _flush(self) -> None:
        while not self.stopping:
            self.flush_once()
            time.sleep(FLUSH_PAUSE_S)

    def flush_once(self, *, all_of_them: bool = False) -> None:
        """Makes durable what was acknowledged, and tells of it; nothing is told of what is in doubt."""
        for consumer in self._all:
            numbers = consumer.flushed(always=all_of_them)
            if numbers:
                self._frames.send_numbers(Kind.ACKED, numbers)


class _Consumer:
    """One subject's consumer."""

    def __init__(
        self, whole: Consumers, store: Queue, subject: str, in_flight_max: int, hold: Callable[[], int]
    ) -> None:
        self._whole = whole
        self._hold = hold
        self._acknowledged: list[int] = []
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self.noticed = 0
        self._subscription = store.subscribe(subject, group=GROUP, in_flight_max=in_flight_max)

    def consume(self) -> None:
        """Tells of what comes, and acknowledges it but for the newest few."""
        held: list[Message] = []
        batches = self._subscription.batches(PULL_MESSAGES, wait=WAIT_S)
        while not self._whole.stopping:
            losses = self._whole.losses
            batch = next(batches, [])
            if batch:
                self._whole.tell_delivered(batch, time.time_ns() // 1000)
            if losses != self.noticed:
                # What an older connection delivered goes back to the group. This batch is of none older.
                held.clear()
                self.noticed = losses
            held += batch
            done = held[: max(0, len(held) - self._hold())]
            if done:
                del held[: len(done)]
                self._acknowledge(done)

    def _acknowledge(self, done: Sequence[Message]) -> None:
        with self._lock:  # what is counted as in doubt is on the list, too
            self._subscription.ack(done)
            self._acknowledged += self._whole.numbers_of(done)

    def flushed(self, *, always: bool) -> list[int]:
        """What was acknowledged since last time and is durable.

        A flush tells once of all that is in doubt, so whoever hears it forgets all that is on the list.
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
