from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from delaymq.durations import MOMENT_MS_MAX, delay_ms, due_ms, moment, wait_ms
from delaymq.errors import DelaymqError, InvalidArgument, TooLarge, WrongType


@pytest.mark.parametrize(
    ("delay", "milliseconds"),
    [
        (0, 0),
        (0.0, 0),
        (1, 1000),
        (1.5, 1500),
        (timedelta(minutes=30), 1_800_000),
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=7, microseconds=1), 8),
        (0.0001, 1),
        (5e-324, 1),
        (0.0010001, 2),
        (10**9, 10**12),
    ],
)
def test_a_delay_rounds_up_to_whole_milliseconds(delay: float | timedelta, milliseconds: int) -> None:
    assert delay_ms(delay) == milliseconds


def test_every_decimal_of_three_places_is_exact() -> None:
    assert all(delay_ms(number / 1000) == number for number in range(200_000))


@pytest.mark.parametrize(
    ("delay", "kind"),
    [
        (-1, InvalidArgument),
        (-0.0001, InvalidArgument),
        (timedelta(microseconds=-1), InvalidArgument),
        (float("nan"), InvalidArgument),
        (float("inf"), InvalidArgument),
        (1e300, TooLarge),
        (10**40, TooLarge),
        (True, WrongType),
        ("5", WrongType),
        (None, WrongType),
        (datetime.now(UTC), WrongType),
    ],
)
def test_a_refused_delay_names_its_argument(delay: Any, kind: type[DelaymqError]) -> None:
    with pytest.raises(kind) as caught:
        delay_ms(delay, "wait")
    assert caught.value.argument == "wait"
    assert caught.value.found is not None


def test_a_due_time_is_read_in_any_zone_and_rounds_up() -> None:
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert due_ms(noon) == 1_795_262_400_000
    assert due_ms(noon.astimezone(timezone(timedelta(hours=5, minutes=30)))) == 1_795_262_400_000
    assert due_ms(noon + timedelta(microseconds=1)) == 1_795_262_400_001
    assert moment(due_ms(noon)) == noon


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        (datetime(2026, 11, 21), InvalidArgument),  # noqa: DTZ001 - it is refused for that
        (datetime(1969, 12, 31, tzinfo=UTC), InvalidArgument),
        (date(2026, 11, 21), WrongType),
        (1_795_262_400.0, WrongType),
        (True, WrongType),
    ],
)
def test_a_refused_due_time_names_its_argument(at: Any, kind: type[DelaymqError]) -> None:
    with pytest.raises(kind) as caught:
        due_ms(at)
    assert caught.value.argument == "at"


def test_no_timeout_waits_for_ever() -> None:
    assert wait_ms(None) is None
    assert wait_ms(0.25) == 250


def test_a_time_that_no_datetime_can_say_is_refused_by_name() -> None:
    assert moment(MOMENT_MS_MAX).year == 9999
    with pytest.raises(TooLarge) as caught:
        moment(MOMENT_MS_MAX + 1)
    assert (caught.value.argument, caught.value.limit) == ("due", MOMENT_MS_MAX)
