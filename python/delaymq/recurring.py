"""Recurring messages: a series has a rule for its due times, and one pending message at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from delaymq.durations import OnExpiry
from delaymq.receipt import Receipt

__all__ = ["CatchUp", "Recurring"]

CatchUp = Literal["one", "skip", "all"]
"""How missed occurrences are handled: the last one is published at once, none is, or each one is."""

CATCH_UPS: tuple[CatchUp, ...] = ("one", "skip", "all")
ATTRIBUTE = "recurring"  # attribute of each message: the name of its series


@dataclass(frozen=True, slots=True)
class Recurring:
    """A series of messages that has not ended.

    Attributes:
        subject: The subject of its messages.
        name: Its name, unique within the subject.
        every: Its interval, or None.
        cron: Its cron pattern, or None.
        zone: The IANA time zone of the pattern; `"UTC"` for an interval.
        catch_up: How missed occurrences are handled: `"one"`, `"skip"` or `"all"`.
        receipt: The receipt of the pending message, for `cancel`, `move` and `look_up`; None while that message is
            about to be stored.
        expires_after: How long after its due time each message is of use, or None.
        on_expiry: The effect of an expiry: `"drop"` or `"dead_letter"`; None if the messages do not expire.
    """

    subject: str
    name: str
    every: timedelta | None
    cron: str | None
    zone: str
    catch_up: CatchUp
    receipt: Receipt | None
    expires_after: timedelta | None = None
    on_expiry: OnExpiry | None = None

    @property
    def due(self) -> datetime | None:
        """When the pending message is due, UTC; None while it is about to be stored."""
        return None if self.receipt is None else self.receipt.due
