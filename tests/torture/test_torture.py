"""Killed servers lose nothing that they answered: for a moment here, for long by `make torture`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from torture.kills import (
    CAUSES,
    FAILPOINT,
    FAILPOINTS,
    MOMENT,
    ONCE_IN_A_LIFE,
    RARE,
    WHEN_IDLE,
    failpoints,
    kills,
)
from torture.run import Outcome, Run, Totals, called


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_a_server_that_is_killed_under_load_keeps_its_promises(tmp_path: Path, durability: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    chosen = ("--by", "served", "--kills", "3", "--seed", "17", "--durability", durability)
    ended = called("torture.store", *chosen, "--store", str(tmp_path / "store"), "--ledger", str(ledger))
    assert ended.returncode == 0, ended.stderr
    how = json.loads(ended.stdout)
    assert sum(count for cause, count in how["kills"].items() if cause != "stopped") == 3
    judged = called("checker", "--clocks-ms", "20", str(ledger))
    assert judged.returncode == 0, judged.stderr
    verdict = json.loads(judged.stdout)
    assert verdict["finished"] > 100, "it was under load"
    again = verdict["duplicates"]
    assert again["crash"] or verdict["published"]["ambiguous"], "it was killed at work"


def test_the_failpoints_are_those_of_the_core() -> None:
    names = failpoints()
    assert len(names) == len(set(names)) > 30
    assert {"AppendBegins", "EpochBegun"} <= set(names)
    assert set(names) >= (ONCE_IN_A_LIFE | RARE | WHEN_IDLE)
    sources = [path.read_text(encoding="utf-8") for path in FAILPOINTS.parents[4].glob("rust/*/src/**/*.rs")]
    for name in names:
        assert any(f"Failpoint::{name}" in source for source in sources), f"{name} is nowhere"


def test_kills_come_at_each_failpoint_in_its_turn() -> None:
    found = list(kills(random.Random(1), 90, ["a", "b", "c"], first=1, life_seconds=1, patience_seconds=2))
    assert {kill.cause for kill in found} == set(CAUSES)
    named = [kill.failpoint for kill in found if kill.cause == FAILPOINT]
    assert named[:4] == ["b", "c", "a", "b"]
    assert len(named) > 45
    begun, *there = kills(random.Random(1), 6, ["a"], first=0, life_seconds=1, patience_seconds=2, only_there=True)
    assert begun.cause == MOMENT, "somebody gets in before all ends are on the way there"
    assert [(kill.failpoint, kill.count) for kill in there] == [("a", 1)] * 6
    plain = list(kills(random.Random(1), 30, [], first=0, life_seconds=1, patience_seconds=2))
    assert not any(kill.failpoint for kill in plain)


def test_what_is_broken_is_counted_and_told() -> None:
    judged = {
        "published": {"acknowledged": 7, "refused": 0, "ambiguous": 1},
        "delivered": 6,
        "starts": 3,
        "findings": {"lost": 1, "early": 0},
        "duplicates": {"crash": 2, "lease": 1, "cap": 9, "largest_after_a_stop": 2},
    }
    ended = {"kills": {"moment": 2, "stopped": 1}, "failpoints": {}}
    outcome = Outcome(Run("served", 2, 5, "disk", 0, is_planted=False), "broken", judged, ended, "")
    assert outcome.told().endswith("7 published, 6 delivered, 2 twice after a stop at most; 1 lost")
    totals = Totals()
    totals.add(outcome)
    told = totals.as_json(4.0, 2, ["Rolled"], {"AnswerBeforeVisible": "unseen"})
    assert (told["kills"], told["restarts_per_second"], told["findings"]["lost"]) == (2, 0.5, 1)
    assert told["duplicates"] == {"crash": 2, "lease": 1, "cap": 9}
    assert told["failpoints_unreached"] == ["Rolled"]
