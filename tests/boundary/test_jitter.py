"""Due times that are spread by chance, on every face."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from delaymq import InvalidArgument, Publish, WrongType
from faces import Face

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
MANY = 400
AT = datetime(2030, 1, 1, tzinfo=UTC)


def ways(face: Face) -> list[list[Any]]:
    """Receipts of many messages that are due at one time and spread over a minute, by each way to publish."""
    store = face.store
    one = [face.call(lambda: store.publish("a", b"", at=AT, jitter=60)) for _ in range(MANY)]
    rows = [Publish("a", b"", at=AT, jitter=MINUTE) for _ in range(MANY)]
    mixed = list(face.call(lambda: store.publish_many(rows)))
    dues = [[receipt.due for receipt in receipts] for receipts in (one, mixed)]
    for delays in (HOUR, [3600] * MANY):
        before = datetime.now(UTC)
        receipts = list(face.call(partial(store.publish_many, "a", [b""] * MANY, delays, jitter=60)))
        # How long that took is part of these dues, and is taken away as far as is known.
        dues.append([receipt.due + (AT - before - HOUR) for receipt in receipts])
    return dues


def test_dues_are_never_early_and_lie_all_over_the_jitter(face: Face) -> None:
    for place, dues in enumerate(ways(face)):
        slack = timedelta(seconds=10) if place > 1 else timedelta(0)
        assert min(dues) >= AT - timedelta(milliseconds=1)
        assert max(dues) <= AT + MINUTE + slack
        # Of 400 even draws each sixth of the minute has some, but for once in 10^30 times.
        assert min(dues) < AT + MINUTE / 6 + slack
        assert max(dues) > AT + MINUTE * 5 / 6
        assert len(set(dues)) > MANY / 2


def test_no_jitter_changes_nothing(face: Face) -> None:
    rows = [Publish("a", b"", at=AT, jitter=jitter) for jitter in (None, 0, timedelta(0))]
    assert [receipt.due for receipt in face.call(lambda: face.store.publish_many(rows))] == [AT] * 3
    many = face.call(lambda: face.store.publish_many("a", [b"", b""], [1, 2], jitter=0))
    assert len(many) == 2


def test_each_publish_has_its_own_jitter(face: Face) -> None:
    with pytest.raises(InvalidArgument) as caught:
        face.call(lambda: face.store.publish_many([Publish("a", b"")], jitter=5))
    assert caught.value.argument == "jitter"


def test_as_many_delays_as_bodies_are_asked_for_with_a_jitter_too(face: Face) -> None:
    with pytest.raises(InvalidArgument):
        face.call(lambda: face.store.publish_many("a", [b""], [1, 2], jitter=5))


def test_a_sum_beyond_the_horizon_is_refused(face: Face) -> None:
    # Ten years and any part of ten years.
    far = Publish("a", b"", delay=timedelta(days=3_649), jitter=timedelta(days=3_650))
    with pytest.raises(InvalidArgument) as caught:
        face.call(lambda: face.store.publish_many([far] * 64))
    assert caught.value.argument == "delay"


@pytest.mark.parametrize(
    ("bodies", "delays", "kind"),
    [
        ([b"x"], None, WrongType),
        (5, 0, WrongType),
        (5, [0], WrongType),
        ((body for body in [b"x"]), 0, WrongType),
        ([b"x"], (delay for delay in [0]), WrongType),
        ([b"x"], [b"0"], WrongType),
        ([b"x", b"y"], [0], InvalidArgument),
        (["x"], 0, WrongType),
    ],
)
def test_what_is_refused_without_a_jitter_is_refused_with_one(face: Face, bodies: Any, delays: Any, kind: Any) -> None:
    refusals = []
    for jitter in (None, 1):
        with pytest.raises(kind) as refused:
            face.call(partial(face.store.publish_many, "a", bodies, delays, jitter=jitter))
        refusals.append((str(refused.value), refused.value.argument, refused.value.index))
    assert refusals[0] == refusals[1]
    assert face.call(face.store.status).pending == 0
