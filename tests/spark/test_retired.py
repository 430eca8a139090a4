from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from delaymq.cli.spark.session import stretches
from delaymq.spark.plan import retired_from


@dataclass(frozen=True)
class Seen:
    """What is asked of a snapshot."""

    first_sequence: int
    retired: tuple[tuple[int, int], ...] = ()


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (1, ((1, 10), (20, 30), (40, 41))),
        (9, ((9, 10), (20, 30), (40, 41))),
        (10, ((20, 30), (40, 41))),
        (25, ((25, 30), (40, 41))),
        (41, ()),
    ],
)
def test_what_a_job_does_not_see_begins_where_it_looks(first: int, found: Any) -> None:
    seen: Any = Seen(10, ((20, 30), (40, 41)))
    assert retired_from(seen, first) == found


def test_a_whole_log_has_nothing_retired() -> None:
    whole: Any = Seen(1)
    assert retired_from(whole, 1) == ()


def test_many_stretches_are_counted() -> None:
    assert stretches([(1, 10), (20, 31)]) == "1 to 9, 20 to 30"
    many = [(first, first + 2) for first in range(0, 80, 10)]
    assert stretches(many).endswith("40 to 41 and 3 more stretches, 6 in all")
