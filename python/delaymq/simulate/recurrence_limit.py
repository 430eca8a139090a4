"""A bound for what series send: none of them has an end, so that a simulation up to a far year would go on for days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from delaymq.durations import delay_ms, due_ms
from delaymq.errors import TooLarge
from delaymq.message import Message
from delaymq.recurring import ATTRIBUTE, Recurring

__all__ = ["RECURRING_MAX", "Recurred"]

RECURRING_MAX = 1_000_000
"""Eleven days of one message a second. The clock turns some thousand times a second."""


class Recurred:
    """How many messages of series were handed over, and how many may be."""

    def __init__(self, series: Sequence[Recurring], groups: Iterable[tuple[str, str]], most: int) -> None:
        """Of these series, for these groups, each of which is handed every message of its subject."""
        self._series, self._most = series, most
        self._groups = Counter(subject for subject, _ in groups)
        self._came = 0

    def foresee(self, begins_ms: int, ends_ms: int) -> None:
        """Refuses at once what intervals will send too much of. What patterns send is seen when it comes.

        Raises:
            TooLarge: More messages than there may be.
        """
        count = 0
        for one in self._series:
            if one.every is not None:
                first_ms = begins_ms if one.due is None else max(begins_ms, due_ms(one.due))
                count += max(0, ends_ms - first_ms) // delay_ms(one.every) * self._groups[one.subject]
        if count > self._most:
            raise self._too_many(count, f"{count:,} by then")

    def note(self, messages: Sequence[Message], now: datetime) -> None:
        """These were handed over.

        Raises:
            TooLarge: They are more than there may be.
        """
        if self._series:  # nobody begins one in the copy
            self._came += sum(ATTRIBUTE in message.attributes for message in messages)
            if self._came > self._most:
                raise self._too_many(self._came, f"{self._came:,} by {now.isoformat()}")

    def _too_many(self, found: int, words: str) -> TooLarge:
        return TooLarge(
            f"until: series would send more than {self._most:,} messages, found {words}: end earlier, end series that "
            "are of no interest in a copy, or allow more (recurring_max, --recurring-max)",
            argument="until",
            limit=self._most,
            found=str(found),
        )
