"""The settings of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delaymq.demo.ledger import UNACKNOWLEDGED_MIN
from delaymq.demo.orders import Orders

if TYPE_CHECKING:
    from delaymq.demo.account import Account

__all__ = ["QUIET_S", "Settings"]

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
