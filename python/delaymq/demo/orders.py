"""Orders: the parent's instructions for a child, as one line of text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Self

from delaymq.demo.plan import Plan

__all__ = ["Orders"]


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
