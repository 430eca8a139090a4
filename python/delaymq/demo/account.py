"""The account of a run: reports of the processes, added to the ledger."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from delaymq.demo.frames import Deliveries, Frame, Kind
from delaymq.demo.ledger import Kill, Ledger
from delaymq.demo.result import Result
from delaymq.demo.settings import Settings


@dataclass
class Life:
    """One life of the process that is killed.

    Attributes:
        started_us: When it was started, in microseconds since 1970.
        open_ms: The duration of its recovery.
        facts: The number of facts that recovery applied.
        first_answer_s: Seconds from its start to its first answered publish, or None.
    """

    started_us: int
    open_ms: float = 0.0
    facts: int = 0
    first_answer_s: float | None = None


@dataclass
class Account:
    """All reports of a run.

    Attributes:
        ledger: Every message.
        lives: Each life of the process that is killed.
        kills: The messages in flight at each kill that counts.
        failures: Errors of the demo itself, as text.
        published_us: When the first publish began and when the last one was answered.
        heard: When the last report came, by the monotonic clock.
        published_all: True once everything is published.
    """

    ledger: Ledger
    lives: list[Life] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    published_us: tuple[int, int] = (0, 0)
    heard: float = field(default_factory=time.monotonic)
    published_all: bool = False

    @property
    def life(self) -> Life:
        """The current life."""
        return self.lives[-1]

    def begin(self, started_us: int) -> None:
        """Begins another life."""
        self.lives.append(Life(started_us))
        self.published_all = False
        self.heard = time.monotonic()

    def killed(self) -> None:
        """Notes that the process is dead and all its reports were read."""
        kill = self.ledger.killed()
        if kill.counts:
            self.kills.append(kill)

    def result(self, settings: Settings, seconds: float, left: int) -> Result:
        """The result of a run, with its duration and the number of unfinished messages in the store."""
        return Result(
            settings=settings,
            verdict=self.ledger.verdict(),
            kills=self.kills,
            lives=[(life.open_ms, life.facts, life.first_answer_s) for life in self.lives],
            lateness_ms=sorted(self.ledger.lateness_ms),
            lateness_after_restart_ms=sorted(self.ledger.lateness_after_restart_ms),
            published_s=(self.published_us[1] - self.published_us[0]) / 1e6,
            seconds=seconds,
            left=left,
            failures=self.failures,
        )

    def record(self, frame: Frame) -> None:
        """Adds one report."""
        self.heard = time.monotonic()
        ledger = self.ledger
        match frame.kind:
            case Kind.OPENED:
                opened = frame.json()
                self.life.open_ms, self.life.facts = opened["open_ms"], opened["facts"]
            case Kind.PUBLISHED_ALL:
                self.published_all = True
            case Kind.FAILED:
                self.failures.append(frame.json()["error"])
            case Kind.BEGUN:
                self.published_us = (self.published_us[0] or frame.time_us, self.published_us[1])
                ledger.begun(frame.numbers(), frame.time_us)
            case Kind.ANSWERED:
                self._answered(frame)
            case Kind.RECEIPTS:
                ledger.receipts_known(frame.json())
            case Kind.CANCEL_ANSWERED:
                ledger.cancel_answered(frame.json())
            case Kind.DELIVERED:
                ledger.delivered(Deliveries.from_bytes(frame.payload), frame.time_us)
            case Kind.ACKED:
                ledger.acked(frame.numbers())

    def _answered(self, frame: Frame) -> None:
        self.published_us = (self.published_us[0], frame.time_us)
        if self.life.first_answer_s is None:
            self.life.first_answer_s = (frame.time_us - self.life.started_us) / 1e6
        self.ledger.answered(frame.numbers())
