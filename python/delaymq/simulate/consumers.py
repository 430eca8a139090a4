"""Model of a consumer group: a constant rate, one message after the other, in order of delivery."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from delaymq.durations import moment

BUCKETS_A_DOUBLING = 16
"""Buckets for each doubling of lateness, so that percentiles are exact to 4.4 %."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction for one group.

    Attributes:
        subject: The subject.
        group: The group that consumes; `simulate` for a subject without groups.
        rate_per_s: The assumed rate, in messages a second.
        messages: Messages by the end: those that were ready at the start, and those that became due.
        unfinished: Messages that it had not begun with at the end.
        late_p50: Median of the time from being due until the group begins with a message.
        late_p99: The 99th percentile.
        late_max: The maximum.
        worst_due: When the message with the maximum was due; None without messages.
        backlog_max: The largest number of messages that waited at the same time.
        backlog_max_at: When that was.
    """

    subject: str
    group: str
    rate_per_s: float
    messages: int
    unfinished: int
    late_p50: timedelta
    late_p99: timedelta
    late_max: timedelta
    worst_due: datetime | None
    backlog_max: int
    backlog_max_at: datetime | None


class ConsumerModel:
    """One group. It begins with a message when that is due and the one before is finished."""

    def __init__(self, subject: str, group: str, rate_per_s: float, start_ms: float) -> None:
        """A group that is idle at `start_ms`."""
        self._subject, self._group, self._rate_per_s = subject, group, rate_per_s
        self._each_ms = 1000 / rate_per_s
        self._free_ms = start_ms
        # Waiting messages are begun at a constant rate, so the start of the first determines all.
        self._waiting, self._first_begins_ms = 0, start_ms
        self._buckets: Counter[int] = Counter()
        self._messages = 0
        self._worst_ms, self._worst_due_ms = -1.0, 0
        self._backlog_max, self._backlog_max_ms = 0, 0.0

    def take(self, dues_ms: Sequence[int]) -> None:
        """Adds messages that have become ready, in order of delivery."""
        for due_ms in dues_ms:
            begins_ms = max(self._free_ms, due_ms)
            self._free_ms = begins_ms + self._each_ms
            late_ms = begins_ms - due_ms
            self._buckets[_bucket(late_ms)] += 1
            if late_ms > self._worst_ms:
                self._worst_ms, self._worst_due_ms = late_ms, due_ms
            self._wait_no_more(due_ms)
            if not self._waiting:
                self._first_begins_ms = begins_ms
            self._waiting += 1
            if self._waiting > self._backlog_max:
                self._backlog_max, self._backlog_max_ms = self._waiting, max(due_ms, 0)
        self._messages += len(dues_ms)

    def _wait_no_more(self, now_ms: float) -> None:
        """Removes the messages that it has begun with before this time."""
        while self._waiting and self._first_begins_ms < now_ms:
            self._first_begins_ms += self._each_ms
            self._waiting -= 1

    def predicted(self, end_ms: float) -> Predicted:
        """The prediction at the end."""
        self._wait_no_more(end_ms)
        return Predicted(
            self._subject,
            self._group,
            self._rate_per_s,
            self._messages,
            self._waiting,
            timedelta(milliseconds=self._percentile(0.5)),
            timedelta(milliseconds=self._percentile(0.99)),
            timedelta(milliseconds=max(self._worst_ms, 0.0)),
            moment(self._worst_due_ms) if self._messages else None,
            self._backlog_max,
            moment(round(self._backlog_max_ms)) if self._backlog_max else None,
        )

    def _percentile(self, share: float) -> float:
        rank, passed = share * self._messages, 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= rank:
                return min(_end(bucket), max(self._worst_ms, 0.0))
        return 0.0


def _bucket(late_ms: float) -> int:
    return math.ceil(math.log2(late_ms) * BUCKETS_A_DOUBLING) if late_ms >= 1 else -1


def _end(bucket: int) -> float:
    return 2 ** (bucket / BUCKETS_A_DOUBLING) if bucket >= 0 else 0.0
