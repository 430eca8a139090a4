"""Histories of the demo made by hand. One is right; each of the others breaks one promise, and must be found."""

from __future__ import annotations

from collections.abc import Callable

from delaymq.demo.frames import Deliveries
from delaymq.demo.ledger import Ledger
from delaymq.demo.plan import Plan

MESSAGES = 40
STARTED_US = 1_795_262_400_000_000
IN_FLIGHT_MAX = 8


class History:
    """A ledger, and short words for what happens to it."""

    def __init__(self) -> None:
        self.plan = Plan(MESSAGES, 2, 10_000, 3)
        self.ledger = Ledger(self.plan, IN_FLIGHT_MAX)
        self.ledger.opened(STARTED_US)
        self.cancelled = next(number for number in range(MESSAGES) if self.plan.delays_ms[number] > 5_000)

    def due_us(self, number: int) -> int:
        return STARTED_US + self.plan.delays_ms[number] * 1000

    def publish(self, numbers: list[int]) -> None:
        self.ledger.begun(numbers, STARTED_US)
        self.ledger.answered(numbers)

    def deliver(self, number: int, *, late_us: int = 500, redelivered: bool = False, altered: bool = False) -> None:
        deliveries = Deliveries.empty()
        due_ms = self.due_us(number) // 1000
        deliveries.add(number, due_ms, redelivered=redelivered, altered=altered)
        self.ledger.delivered(deliveries, self.due_us(number) + late_us)

    def cancel(self, number: int, outcome: str) -> None:
        self.ledger.receipts_known([(number, "dmq1-")])
        self.ledger.cancel_answered([(number, outcome)])

    def right(self) -> None:
        """Publish, cancel one, kill with some unacknowledged and some unanswered, go on, deliver all."""
        self.publish(list(range(30)))
        self.cancel(self.cancelled, "done")
        self.ledger.begun(range(30, 35), STARTED_US)
        rest = [number for number in range(30) if number != self.cancelled]
        for number in rest[:12]:
            self.deliver(number)
        self.ledger.acked(rest[:4])
        self.ledger.killed()
        assert self.ledger.take_unanswered() == [30, 31, 32, 33, 34]
        self.ledger.opened(STARTED_US + 1)
        self.publish([30, 31, 32, 33, 34])
        self.publish([35, 36, 37, 38, 39])
        for number in rest[4:12]:
            self.deliver(number, redelivered=True)
        for number in [*rest[12:], *range(30, MESSAGES)]:
            self.deliver(number)
        self.deliver(31, late_us=900)  # both copies of a publish that was sent again
        self.ledger.acked([*rest, *range(30, MESSAGES)])


def lose(history: History) -> None:
    history.plan.messages += 0
    history.ledger._deliveries[20] = 0


def hand_over_early(history: History) -> None:
    history.ledger._deliveries[5] = 0
    history.deliver(5, late_us=-1)


def come_again_unmarked(history: History) -> None:
    history.ledger._acked[6] = 0
    history.ledger._excused[6] = 1
    history.ledger._deliveries[6] = 1
    history.deliver(6, redelivered=False)


def come_again_without_a_kill(history: History) -> None:
    number = next(number for number in range(20, 30) if number != history.cancelled)
    history.ledger._acked[number] = 0
    history.deliver(number, redelivered=True)


def come_again_after_an_acknowledgement(history: History) -> None:
    history.deliver(1 if history.cancelled == 0 else 0, redelivered=True)


def deliver_what_was_cancelled(history: History) -> None:
    history.deliver(history.cancelled)


def alter(history: History) -> None:
    history.deliver(9, altered=True)


def come_again_too_often(history: History) -> None:
    for late_us in range(30):
        history.deliver(31, late_us=late_us)


def forget_a_publish(history: History) -> None:
    history.ledger._answered[39] = 0


def not_know_a_receipt(history: History) -> None:
    history.cancel(4, "not_found")


DOCTORED: list[tuple[Callable[[History], None], str]] = [
    (lose, "1 messages lost"),
    (hand_over_early, "delivered early"),
    (come_again_unmarked, "carry no mark"),
    (come_again_without_a_kill, "no kill explains"),
    (come_again_after_an_acknowledgement, "after a durable acknowledgement"),
    (deliver_what_was_cancelled, "after a cancel that said done"),
    (alter, "bodies altered"),
    (come_again_too_often, "beyond the bound"),
    (forget_a_publish, "not published"),
    (not_know_a_receipt, "did not find their message"),
]
"""What breaks a promise in a right history, and words of the line that says so."""
