"""What the parent wants of a child, in one line of text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Self

from delaymq.demo.plan import Plan

__all__ = ["Orders"]


@dataclass
class Orders:
    """What the parent wants of a child.

    Attributes:
        store: The folder, or the URL of the server.
        messages, subjects, delay_ms_max, seed: The plan.
        in_flight_max: Messages that each consumer may hold unacknowledged.
        hold: Messages that each consumer keeps unacknowledged on purpose until all is published.
        batch: Messages in one publish.
        rate_per_s: Messages published a second, at most.
        resend: Messages whose publish ended without an answer, to be sent again.
        fresh_from: The first message that was never sent.
        cancels: [number, receipt] of what is still to be cancelled.
        publishes: Whether it publishes; it consumes the subjects of its share.
        share, shares: Of so many who share the subjects it is this one, from 0; no shares: it consumes none.
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
        """The plan that they name."""
        return Plan(self.messages, self.subjects, self.delay_ms_max, self.seed)

    def own_subjects(self) -> range:
        """The numbers of the subjects that it consumes."""
        return range(self.share, self.subjects, self.shares) if self.shares else range(0)

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """As it was sent."""
        return cls(**json.loads(line))
