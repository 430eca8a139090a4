from __future__ import annotations

import pytest

from delaymq._arguments.server_options import ConsumerOptions
from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import KEYS, load
from delaymq.cli.server.consumer_options import READ_AS, consuming_of


def test_only_what_is_given_is_chosen() -> None:
    assert consuming_of(load(None, {}, [])) == {}
    names = ("attempts", "held_pulls", "consumers", "groups", "subjects")
    counts = [f"server.qmq_{name}_max={number}" for number, name in enumerate(names, 1)]
    given = load(None, {}, ["server.qmq_lease_seconds=0.5", "server.qmq_retry_seconds=0", *counts])
    assert consuming_of(given) == {
        "lease_ms": 500,
        "retry_delay_ms": 0,
        "attempts_max": 1,
        "held_pulls_max": 2,
        "consumers_max": 3,
        "groups_max": 4,
        "subjects_max": 5,
    }


def test_each_setting_of_qmq_makes_one_choice_and_each_choice_has_one() -> None:
    settings, choices, _ = zip(*READ_AS, strict=True)
    assert sorted(settings) == sorted(
        key.name for key in KEYS if key.name.startswith("server.qmq_") and key.name != "server.qmq_clients_from"
    )
    assert sorted(choices) == sorted(ConsumerOptions.__annotations__)
    given = consuming_of(load(None, {}, [f"{name}={number}" for number, name in enumerate(settings, 1)]))
    milliseconds = {"hours": 3_600_000, "seconds": 1_000}
    assert list(given.values()) == [
        number * milliseconds.get(name.rpartition("_")[2], 1) for number, name in enumerate(settings, 1)
    ]


def test_what_is_not_delayed_may_be_delayed_all_the_same() -> None:
    assert consuming_of(load(None, {}, ["server.qmq_undelayed_seconds=10"])) == {"undelayed_ms": 10_000}


def test_a_lease_shorter_than_a_millisecond_is_one() -> None:
    assert consuming_of(load(None, {}, ["server.qmq_lease_seconds=0.0001"])) == {"lease_ms": 1}


@pytest.mark.parametrize(
    "pair",
    [
        "server.qmq_lease_seconds=0",
        "server.qmq_lease_seconds=2592001",
        "server.qmq_broadcast_lease_hours=0",
        "server.qmq_broadcast_lease_hours=8761",
        "server.qmq_retry_seconds=1e300",
        "server.qmq_groups_max=2147483648",
    ],
)
def test_what_is_beyond_all_bounds_is_refused_by_its_name(pair: str) -> None:
    with pytest.raises(UsageError, match=pair.partition("=")[0]):
        consuming_of(load(None, {}, [pair]))


@pytest.mark.parametrize("name", ["server.qmq_retry_seconds", "server.qmq_undelayed_seconds"])
def test_nothing_waits_longer_than_the_store_lets_it(name: str) -> None:
    longest = "store.delay_days_max=0.00001"
    assert len(consuming_of(load(None, {}, [longest, f"{name}=0.864"]))) == 1
    with pytest.raises(UsageError, match=rf"{name}: .* by store\.delay_days_max, found 0\.865"):
        consuming_of(load(None, {}, [longest, f"{name}=0.865"]))
