"""The settings of the demo, and the orders of a child that are made of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Self

from delaymq.demo.ledger import UNACKNOWLEDGED_MIN
from delaymq.demo.plan import Plan

if TYPE_CHECKING:
    from delaymq.demo.account import Account


@dataclass
class Orders:
    """The instructions for a child.

    Attributes:
        store: The folder, or the URL of the server.
        messages, subjects, delay_ms_max, seed: The plan.
        in_flight_max: The maximum of unacknowledged messages of each consumer.
        hold: Messages that each consumer leaves unacknowledged on purpose until all are published.
        batch: Messages in one publish.
        rate_per_s: The maximum of messages published a second.
        resend: Messages whose publish ended without an answer, to be published again.
        fresh_from: The first message that was never published.
        cancels: [number, receipt] of messages that are still to be cancelled.
        publishes: Whether the child publishes.
        share, shares: The index of the child, from 0, among the children that share the subjects; with 0 shares it
            consumes none.
    """

    store: str
    messages: int
    subjects: int
    delay_ms_max: int
    seed: int
    in_flight_max: int
    hold: int
    batch: int
    rate_per_s: int
    resend: list[int] = field(default_factory=list)
    fresh_from: int = 0
    cancels: list[tuple[int, str]] = field(default_factory=list)
    publishes: bool = True
    share: int = 0
    shares: int = 1

    def plan(self) -> Plan:
        """The plan."""
        return Plan(self.messages, self.subjects, self.delay_ms_max, self.seed)

    def own_subjects(self) -> range:
        """The numbers of the subjects that it consumes."""
        return range(self.share, self.subjects, self.shares) if self.shares else range(0)

    def to_json(self) -> str:
        """Encodes the orders as one line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Decodes the orders."""
        return cls(**json.loads(line))


KILLS_END_SHARE = 0.95  # share of the messages begun by which the kills are done, evenly spread
KILL_TRIES_MAX = 6  # maximum of kills, with those that are repeated because too little was in flight
QUIET_S = 0.5  # how long no message may be missing before the workers are stopped


@dataclass(frozen=True)
class Settings:
    """The settings of the demo.

    Attributes:
        messages: The number of messages.
        subjects: The number of subjects.
        seconds: The longest delay.
        kills: How often the process that has the store is killed, each time with enough in flight.
        in_flight_max: The maximum of unacknowledged messages of each consumer.
        rate_per_s: The maximum of messages published a second.
        seed: The seed of the plan.
        store: The folder, or None for a temporary one.
        served: Whether that process is a server, and other processes publish and consume over TCP.
    """

    messages: int = 200_000
    subjects: int = 50
    seconds: float = 10.0
    kills: int = 2
    in_flight_max: int = 128
    rate_per_s: int = 40_000
    seed: int = 1
    store: str | None = None
    served: bool = False

    def orders(self, store: str) -> Orders:
        """The instructions that all workers share."""
        hold = min(self.in_flight_max // 2, -(-2 * UNACKNOWLEDGED_MIN // self.subjects))
        return Orders(
            store=store,
            messages=self.messages,
            subjects=self.subjects,
            delay_ms_max=int(self.seconds * 1000),
            seed=self.seed,
            in_flight_max=self.in_flight_max,
            hold=hold,
            batch=max(1, self.messages // 2000),
            rate_per_s=self.rate_per_s,
        )

    def kill_is_due(self, account: Account) -> bool:
        """True if another kill is due and enough is in flight, by the reports so far."""
        done = len(account.kills)
        if done >= self.kills or len(account.lives) > KILL_TRIES_MAX:
            return False
        share = KILLS_END_SHARE * (done + 1) / (self.kills + 1)
        ledger = account.ledger
        return (
            ledger.next_fresh >= share * self.messages
            and ledger.publishes_under_way > 0
            and ledger.unacknowledged >= UNACKNOWLEDGED_MIN
            and account.life.first_answer_s is not None
        )
