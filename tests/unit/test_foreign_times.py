"""Times of pandas, which count nanoseconds and round them down on the way to Python's.

They are made here as pandas makes them, for pandas itself is a download of some 15 MB in every run of the tests: what
counts is that its kinds inherit from Python's, have nanoseconds, and answer as below.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Self

import pytest

from delaymq import WrongType
from delaymq.durations import due_of


class Timestamp(datetime):
    """A time to the nanosecond."""

    nanosecond = 999


class Timedelta(timedelta):
    """A span to the nanosecond."""

    nanoseconds = 999


class NaTType(datetime):
    """No time at all: compared with anything it is not equal, and what it is asked for is itself or no number."""

    nanosecond = float("nan")

    def __new__(cls) -> Self:
        return super().__new__(cls, 1, 1, 1)

    def utcoffset(self) -> Self:  # type: ignore[override]
        return self

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__


NOT_A_TIME = NaTType()


@pytest.mark.parametrize("at", [Timestamp.now(UTC), Timestamp.now(), NOT_A_TIME], ids=["aware", "naive", "none"])
def test_a_time_is_refused_with_what_to_call(at: datetime) -> None:
    with pytest.raises(WrongType, match=rf"at: .*\.to_pydatetime\(\).*found {type(at).__name__}"):
        due_of(None, at, None)


def test_a_span_is_refused_with_what_to_call() -> None:
    with pytest.raises(WrongType, match=r"delay: .*\.to_pytimedelta\(\).*found Timedelta"):
        due_of(Timedelta(seconds=1), None, None)


def test_no_time_is_no_delay() -> None:
    with pytest.raises(WrongType, match="delay: expected a timedelta or a number of seconds, found NaTType"):
        due_of(NOT_A_TIME, None, None)  # type: ignore[arg-type]
