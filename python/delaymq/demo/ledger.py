"""The parent's own account of every message, kept outside the store, and the verdict."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from delaymq.demo.frames import Deliveries
from delaymq.demo.plan import Plan

__all__ = ["UNACKNOWLEDGED_MIN", "Cancel", "Kill", "Ledger", "Verdict"]

UNACKNOWLEDGED_MIN = 1000  # a kill counts with at least so many unacknowledged
NEVER_US = 2**63  # when what is down will be up again, as long as nobody knows


class Cancel(IntEnum):
    """How far the cancel of a message has come."""

    NONE = 0
    WANTED = 1  # its receipt is known
    DONE = 2
    ALREADY_DISPATCHED = 3
    NOT_FOUND = 4


@dataclass(frozen=True, slots=True)
class Kill:
    """What was in flight when the child was killed.

    Attributes:
        publishes: Publishes that had begun and were not answered.
        messages: Messages in them.
        unacknowledged: Messages delivered whose acknowledgement was not durable.
    """

    publishes: int
    messages: int
    unacknowledged: int

    @property
    def counts(self) -> bool:
        """True where it met enough in flight to be worth a kill."""
        return self.publishes > 0 and self.unacknowledged >= UNACKNOWLEDGED_MIN


@dataclass(slots=True)
class Verdict:
    """The counts, and each promise that was broken."""

    published: int = 0
    cancelled: int = 0
    delivered: int = 0
    lost: int = 0
    early: int = 0
    duplicated: int = 0
    duplicates_allowed: int = 0
    resent: int = 0
    broken: list[str] = field(default_factory=list)


class Ledger:
    """Knows what was asked, answered, delivered and acknowledged, from the child's own words.

    A duplicate is a delivery beyond the first. It is allowed for what was unacknowledged at a kill
    and for what was sent again because its publish had ended without an answer, and for nothing
    else.
    """

    def __init__(self, plan: Plan, in_flight_max: int) -> None:
        """An empty account.

        Args:
            plan: What is published.
            in_flight_max: Messages that one consumer, so one subject, may hold unacknowledged.
        """
        count = plan.messages
        self.plan = plan
        self.receipts: dict[int, str] = {}
        self.lateness_ms: array[float] = array("d")
        self.lateness_after_restart_ms: array[float] = array("d")
        self.kills: list[Kill] = []
        self.next_fresh = 0
        self._in_flight_sum = in_flight_max * plan.subjects
        self._begun_us = array("Q", bytes(8 * count))
        self._sends = bytearray(count)
        self._answered = bytearray(count)
        self._cancel = bytearray(count)
        self._deliveries = bytearray(count)
        self._acked = bytearray(count)
        self._excused = bytearray(count)  # duplicates that kills have excused
        self._under_way: dict[int, tuple[int, ...]] = {}
        self._held: set[int] = set()
        self._opened_us = 0
        self._early = 0
        self._altered = 0
        self._unmarked = 0
        self._after_ack = 0
        self._resent = 0
        self._left_to_deliver = 0

    # --- what the child says -----------------------------------------------------------------

    def opened(self, time_us: int) -> None:
        """A child has the store open."""
        self._opened_us = time_us

    def begun(self, numbers: Iterable[int], time_us: int) -> None:
        """A publish of these was about to be called."""
        batch = tuple(numbers)
        self._under_way[batch[0]] = batch
        for number in batch:
            if self._sends[number]:
                self._resent += 1
            else:
                self._begun_us[number] = time_us
                self.next_fresh = max(self.next_fresh, number + 1)
            self._sends[number] += 1

    def answered(self, numbers: Iterable[int]) -> None:
        """Their publish returned."""
        batch = tuple(numbers)
        self._under_way.pop(batch[0], None)
        for number in batch:
            if not self._answered[number] and not self._deliveries[number]:
                self._left_to_deliver += 1
            self._answered[number] = 1

    def receipts_known(self, receipts: Iterable[tuple[int, str]]) -> None:
        """These are to be cancelled, by these receipts."""
        for number, receipt in receipts:
            self.receipts[number] = receipt
            self._cancel[number] = Cancel.WANTED

    def cancel_answered(self, outcomes: Iterable[tuple[int, str]]) -> None:
        """A cancel of these returned."""
        for number, outcome in outcomes:
            self._cancel[number] = Cancel[outcome.upper()]
            if self._cancel[number] == Cancel.DONE and not self._deliveries[number]:
                self._left_to_deliver -= 1

    def delivered(self, batch: Deliveries, time_us: int) -> None:
        """A consumer had these in its hands."""
        now_ms = time_us / 1000
        for number, due_ms, flags in zip(batch.numbers, batch.due_ms, batch.flags, strict=True):
            if flags & Deliveries.ALTERED:
                self._altered += 1
                continue
            if time_us < self._begun_us[number] + self.plan.delays_ms[number] * 1000 or now_ms < due_ms:
                self._early += 1
            if self._deliveries[number]:
                self._again(number, redelivered=bool(flags & Deliveries.REDELIVERED))
            else:
                self._first(number, due_ms, now_ms)
            self._deliveries[number] = min(255, self._deliveries[number] + 1)
            self._held.add(number)

    def acked(self, numbers: Iterable[int]) -> None:
        """Their acknowledgement is durable."""
        for number in numbers:
            self._acked[number] = 1
            self._held.discard(number)

    def _first(self, number: int, due_ms: int, now_ms: float) -> None:
        waited_for_restart = due_ms * 1000 < self._opened_us
        (self.lateness_after_restart_ms if waited_for_restart else self.lateness_ms).append(now_ms - due_ms)
        if self._answered[number] and self._cancel[number] != Cancel.DONE:
            self._left_to_deliver -= 1

    def _again(self, number: int, *, redelivered: bool) -> None:
        if self._sends[number] > 1:
            return
        if self._acked[number]:
            self._after_ack += 1
        elif not redelivered or self._excused[number] < self._deliveries[number]:
            self._unmarked += 1

    # --- what the parent does ----------------------------------------------------------------

    def killed(self) -> Kill:
        """The child, or the server, is dead and all that was said before was read: what was in flight."""
        messages = sum(len(batch) for batch in self._under_way.values())
        kill = Kill(len(self._under_way), messages, len(self._held))
        self.kills.append(kill)
        for number in self._held:
            self._excused[number] = self._deliveries[number]
        self._held.clear()
        self._opened_us = NEVER_US
        return kill

    def take_unanswered(self) -> list[int]:
        """What was under way at the last kill and has to be sent again.

        That includes what the child took up and was killed before it said so: numbers that were
        passed over while later ones were begun.
        """
        under_way = {number for batch in self._under_way.values() for number in batch}
        passed_over = {number for number in range(self.next_fresh) if not self._sends[number]}
        self._under_way.clear()
        return sorted(under_way | passed_over)

    def cancels_wanted(self) -> list[tuple[int, str]]:
        """What is to be cancelled and was not answered yet."""
        return [(number, receipt) for number, receipt in self.receipts.items() if self._cancel[number] == Cancel.WANTED]

    @property
    def publishes_under_way(self) -> int:
        """Publishes begun and not answered, as far as was heard."""
        return len(self._under_way)

    @property
    def unacknowledged(self) -> int:
        """Deliveries not acknowledged durably, as far as was heard."""
        return len(self._held)

    @property
    def complete(self) -> bool:
        """True once every message is published, and delivered and acknowledged or cancelled."""
        return (
            self.next_fresh == self.plan.messages
            and not self._under_way
            and self._left_to_deliver == 0
            and not self._held
            and not self.cancels_wanted()
        )

    def verdict(self) -> Verdict:
        """Counts everything and says which promises were broken."""
        verdict = Verdict(
            published=sum(self._answered),
            cancelled=self._cancel.count(Cancel.DONE),
            delivered=sum(1 for count in self._deliveries if count),
            early=self._early,
            duplicated=sum(count - 1 for count in self._deliveries if count),
            duplicates_allowed=len(self.kills) * self._in_flight_sum + self._resent,
            resent=self._resent,
        )
        rows = list(zip(self._answered, self._cancel, self._deliveries, self._sends, strict=True))
        verdict.lost = sum(1 for answered, cancel, count, _ in rows if answered and cancel != Cancel.DONE and not count)
        undead = sum(1 for _, cancel, count, sends in rows if cancel == Cancel.DONE and count and sends == 1)
        broken = {
            "messages lost": verdict.lost,
            "messages delivered early": verdict.early,
            "duplicates beyond the bound": max(0, verdict.duplicated - verdict.duplicates_allowed),
            "messages delivered after a cancel that said done": undead,
            "messages that came again after a durable acknowledgement": self._after_ack,
            "duplicates that no kill explains or that carry no mark": self._unmarked,
            "bodies altered": self._altered,
            "cancels that did not find their message": self._cancel.count(Cancel.NOT_FOUND),
            "messages not published": self.plan.messages - verdict.published,
        }
        verdict.broken = [f"{count:,} {what}" for what, count in broken.items() if count]
        return verdict
