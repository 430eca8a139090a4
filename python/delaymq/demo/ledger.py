"""The parent's own account of every message, kept outside the store, and the verdict."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from delaymq.demo.frames import Deliveries
from delaymq.demo.plan import Plan

UNACKNOWLEDGED_MIN = 1000  # a kill counts only with at least this many unacknowledged messages
NEVER_US = 2**63  # the time of the next open, while it is unknown


class Cancel(IntEnum):
    """The state of the cancel of a message."""

    NONE = 0
    WANTED = 1  # its receipt is known
    DONE = 2
    ALREADY_DISPATCHED = 3
    NOT_FOUND = 4


@dataclass(frozen=True, slots=True)
class Kill:
    """The messages in flight when the child was killed.

    Attributes:
        publishes: Publishes that had begun and were not answered.
        messages: Messages in them.
        unacknowledged: Messages that were delivered and whose acknowledgement was not durable.
    """

    publishes: int
    messages: int
    unacknowledged: int

    @property
    def counts(self) -> bool:
        """True if enough messages were in flight for the kill to count."""
        return self.publishes > 0 and self.unacknowledged >= UNACKNOWLEDGED_MIN


@dataclass(slots=True)
class Verdict:
    """The counts, and the promises that were broken."""

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
    """Records what was requested, answered, delivered and acknowledged, from the child's reports.

    A duplicate is a delivery after the first. It is allowed for messages that were unacknowledged at a kill,
    and for messages that were published again because their publish had ended without an answer; no other
    duplicate is allowed.
    """

    def __init__(self, plan: Plan, in_flight_max: int) -> None:
        """An empty ledger.

        Args:
            plan: The messages that are published.
            in_flight_max: The maximum of unacknowledged messages of one consumer, and so of one subject.
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

    # --- reports of the child ----------------------------------------------------------------

    def opened(self, time_us: int) -> None:
        """A child has opened the store."""
        self._opened_us = time_us

    def begun(self, numbers: Iterable[int], time_us: int) -> None:
        """A publish of these messages is about to be called."""
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
        """The publish of these messages returned."""
        batch = tuple(numbers)
        self._under_way.pop(batch[0], None)
        for number in batch:
            if not self._answered[number] and not self._deliveries[number]:
                self._left_to_deliver += 1
            self._answered[number] = 1

    def receipts_known(self, receipts: Iterable[tuple[int, str]]) -> None:
        """These messages are to be cancelled, by these receipts."""
        for number, receipt in receipts:
            self.receipts[number] = receipt
            self._cancel[number] = Cancel.WANTED

    def cancel_answered(self, outcomes: Iterable[tuple[int, str]]) -> None:
        """A cancel of these messages returned."""
        for number, outcome in outcomes:
            self._cancel[number] = Cancel[outcome.upper()]
            if self._cancel[number] == Cancel.DONE and not self._deliveries[number]:
                self._left_to_deliver -= 1

    def delivered(self, batch: Deliveries, time_us: int) -> None:
        """A consumer received these messages."""
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
        """The acknowledgement of these messages is durable."""
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

    # --- calls of the parent -----------------------------------------------------------------

    def killed(self) -> Kill:
        """The child or the server is dead, and all its reports were read; returns the messages in flight."""
        messages = sum(len(batch) for batch in self._under_way.values())
        kill = Kill(len(self._under_way), messages, len(self._held))
        self.kills.append(kill)
        for number in self._held:
            self._excused[number] = self._deliveries[number]
        self._held.clear()
        self._opened_us = NEVER_US
        return kill

    def take_unanswered(self) -> list[int]:
        """The messages that were in progress at the last kill and have to be published again.

        They include messages that the child took from the plan and was killed before it reported them: numbers
        that were skipped while later ones were begun.
        """
        under_way = {number for batch in self._under_way.values() for number in batch}
        passed_over = {number for number in range(self.next_fresh) if not self._sends[number]}
        self._under_way.clear()
        return sorted(under_way | passed_over)

    def cancels_wanted(self) -> list[tuple[int, str]]:
        """The messages to cancel whose cancel was not answered yet."""
        return [(number, receipt) for number, receipt in self.receipts.items() if self._cancel[number] == Cancel.WANTED]

    @property
    def publishes_under_way(self) -> int:
        """Publishes that have begun and were not answered, by the reports so far."""
        return len(self._under_way)

    @property
    def unacknowledged(self) -> int:
        """Deliveries without a durable acknowledgement, by the reports so far."""
        return len(self._held)

    @property
    def complete(self) -> bool:
        """True once every message is published, and delivered and acknowledged, or cancelled."""
        return (
            self.next_fresh == self.plan.messages
            and not self._under_way
            and self._left_to_deliver == 0
            and not self._held
            and not self.cancels_wanted()
        )

    def verdict(self) -> Verdict:
        """Counts everything and lists the promises that were broken."""
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
