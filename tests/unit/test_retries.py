from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from delaymq import DelaymqError, InvalidArgument, WrongType, backoff


def test_delays_grow_up_to_the_longest() -> None:
    retry_after = backoff(first=1, factor=3, longest=timedelta(seconds=20), jitter=0)
    assert [retry_after(attempt).total_seconds() for attempt in (1, 2, 3, 4, 10**6)] == [1, 3, 9, 20, 20]


def test_jitter_spreads_both_ways_and_no_further() -> None:
    retry_after = backoff(first=10, jitter=0.2)
    found = [retry_after(1).total_seconds() for _ in range(500)]
    assert 8 <= min(found) < 9.5
    assert 10.5 < max(found) <= 12


def test_no_first_delay_is_no_delay() -> None:
    assert backoff(first=0)(10**9) == timedelta(0)


@pytest.mark.parametrize(
    ("options", "argument", "kind"),
    [
        ({"first": -1}, "first", InvalidArgument),
        ({"first": "1"}, "first", WrongType),
        ({"first": True}, "first", WrongType),
        ({"longest": math.inf}, "longest", InvalidArgument),
        ({"factor": 0.5}, "factor", InvalidArgument),
        ({"factor": math.nan}, "factor", InvalidArgument),
        ({"factor": "2"}, "factor", WrongType),
        ({"jitter": 1.5}, "jitter", InvalidArgument),
        ({"jitter": True}, "jitter", WrongType),
    ],
)
def test_options_of_no_sense_are_refused(options: Any, argument: str, kind: type[DelaymqError]) -> None:
    with pytest.raises(kind) as caught:
        backoff(**options)
    assert caught.value.argument == argument


@pytest.mark.parametrize(("attempt", "kind"), [(0, InvalidArgument), (-1, InvalidArgument), (1.0, WrongType)])
def test_an_attempt_of_no_sense_is_refused(attempt: Any, kind: type[DelaymqError]) -> None:
    with pytest.raises(kind) as caught:
        backoff()(attempt)
    assert caught.value.argument == "attempt"


def test_the_longest_delays_are_delays() -> None:
    for options in ({"first": timedelta.max, "longest": timedelta.max}, {"first": 1e15, "longest": 9e15}):
        assert max(backoff(jitter=1, **options)(attempt) for attempt in range(1, 50)) <= timedelta.max


@pytest.mark.parametrize("value", [10**400, 10**5000, 1e306], ids=["401 digits", "5001 digits", "a float"])
def test_what_no_delay_can_be_is_refused(value: float) -> None:
    for argument in ("first", "longest", "factor"):
        with pytest.raises(InvalidArgument) as caught:
            backoff(**{argument: value})
        assert caught.value.argument == argument
    with pytest.raises(InvalidArgument):
        backoff()(-int(value))
