"""A limit on the messages of series, which never end: without it, simulating a far year would take days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from delaymq.durations import delay_ms, due_ms
from delaymq.errors import TooLarge
from delaymq.message import Message
from delaymq.recurring import ATTRIBUTE, Recurring

RECURRING_MAX = 1_000_000
"""Eleven days of one message a second. The clock can be advanced some thousand times a second."""


class RecurrenceLimit:
    """Counts delivered messages of series against the maximum."""

    def __init__(self, series: Sequence[Recurring], groups: Iterable[tuple[str, str]], most: int) -> None:
        """For these series and groups; each group is delivered every message of its subject."""
        self._series, self._most = series, most
        self._groups = Counter(subject for subject, _ in groups)
        self._delivered = 0

    def check_intervals(self, begins_ms: int, ends_ms: int) -> None:
        """Refuses at once if intervals alone exceed the maximum; messages of patterns are counted on delivery.

        Raises:
            TooLarge: They exceed the maximum.
        """
        count = 0
        for one in self._series:
            if one.every is not None:
                first_ms = begins_ms if one.due is None else max(begins_ms, due_ms(one.due))
                count += max(0, ends_ms - first_ms) // delay_ms(one.every) * self._groups[one.subject]
        if count > self._most:
            raise self._too_many(count, f"{count:,} by then")

    def count(self, messages: Sequence[Message], now: datetime) -> None:
        """Counts delivered messages.

        Raises:
            TooLarge: They exceed the maximum.
        """
        if self._series:  # the copy begins no new series
            self._delivered += sum(ATTRIBUTE in message.attributes for message in messages)
            if self._delivered > self._most:
                raise self._too_many(self._delivered, f"{self._delivered:,} by {now.isoformat()}")

    def _too_many(self, found: int, words: str) -> TooLarge:
        return TooLarge(
            f"until: series would send more than {self._most:,} messages, found {words}: end earlier, end series that "
            "are of no interest in a copy, or allow more (recurring_max, --recurring-max)",
            argument="until",
            limit=self._most,
            found=str(found),
        )
