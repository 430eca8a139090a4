"""What the demo prints of a run, and the exit code that it ends with."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable
from typing import Self

import pytest

from delaymq import demo
from delaymq.cli import main
from delaymq.demo.conductor import Conductor
from delaymq.demo.ledger import Kill, Verdict
from delaymq.demo.result import Result
from delaymq.demo.settings import Settings
from delaymq.demo.summary import lines
from unit.demo_histories import DOCTORED, History

ENOUGH = [Kill(3, 300, 1_234), Kill(1, 100, 1_000)]
KEPT = "every promise kept"
BROKEN = "promises broken"


def a_result() -> Result:
    """A run in which every promise was kept."""
    verdict = Verdict(
        published=20_000, cancelled=990, delivered=19_010, duplicated=1_500, duplicates_allowed=12_900, resent=100
    )
    return Result(
        settings=Settings(messages=20_000, kills=2),
        verdict=verdict,
        kills=list(ENOUGH),
        lives=[(5.0, 0, 0.01), (12.4, 3_456, 0.0341), (20.6, 7_000, None)],
        lateness_ms=[0.25] * 980 + [1.5] * 17 + [40.0, 60.0, 7_000.25],
        lateness_after_restart_ms=[90.0, 120.0],
        published_s=4.0,
        seconds=10.0,
    )


def test_every_line_of_a_run_that_kept_its_promises() -> None:
    assert list(lines(a_result())) == [
        "kill 1: 3 publishes under way (300 messages), 1,234 messages unacknowledged",
        "kill 2: 1 publishes under way (100 messages), 1,000 messages unacknowledged",
        "recovered in 12 ms (3,456 facts applied); first publish answered after 34 ms",
        "recovered in 21 ms (7,000 facts applied); first publish answered after none",
        "published   20,000",
        "cancelled   990",
        "delivered   19,010",
        "lost        0",
        "early       0",
        "duplicated  1,500  (allowed: 12,900; sent again after an unanswered publish: 100)",
        "left        0",
        "lateness    p50 0.25 ms, p99 1.50 ms, p99.9 60.00 ms, max 7000.25 ms  (n 1,000)",
        (
            "            and p50 90.00 ms, p99 120.00 ms, p99.9 120.00 ms, max 120.00 ms  (n 2) of what was due "
            "while it was down"
        ),
        "rate        5,000 messages/s published durably, restarts included",
        "            1,901 messages/s from the first line to the last",
        "   <= 0.5 ms        980  " + "#" * 40,
        "     <= 1 ms          0  ",
        "     <= 2 ms         17  #",
        "     <= 5 ms          0  ",
        "    <= 10 ms          0  ",
        "    <= 20 ms          0  ",
        "    <= 50 ms          1  #",
        "   <= 100 ms          1  #",
        "   <= 200 ms          0  ",
        "   <= 500 ms          0  ",
        "  <= 1000 ms          0  ",
        "  <= 5000 ms          0  ",
        "   > 5000 ms          1  #",
        "10.0 s in all",
        KEPT,
    ]


def test_what_was_not_measured_is_said_to_be_none() -> None:
    result = dataclasses.replace(a_result(), lateness_ms=array("d"), published_s=0.0)
    printed = list(lines(result))
    assert "lateness    none" in printed
    assert "rate        no rate published durably, restarts included" in printed
    assert not any("<=" in line for line in printed)


def lose_nothing_but_keep_some(result: Result) -> None:
    result.left = 1_200


def fail(result: Result) -> None:
    result.failures.append("the child ended with 3")


def kill_too_seldom(result: Result) -> None:
    del result.kills[1]


def kill_with_too_little_unacknowledged(result: Result) -> None:
    result.kills[1] = Kill(1, 100, 999)


def kill_with_no_publish_under_way(result: Result) -> None:
    result.kills[0] = Kill(0, 0, 1_000)


def verdict_of(doctor: Callable[[History], None]) -> Callable[[Result], None]:
    """What the ledger finds in a doctored history, as the verdict of a run."""

    def doctored(result: Result) -> None:
        history = History()
        history.right()
        doctor(history)
        result.verdict = history.ledger.verdict()

    return doctored


BREAKING = [
    (lose_nothing_but_keep_some, "1,200 messages left unfinished in the store"),
    (fail, "the child ended with 3"),
    (kill_too_seldom, "only 1 of 2 kills met enough in flight"),
    (kill_with_too_little_unacknowledged, "only 1 of 2 kills met enough in flight"),
    (kill_with_no_publish_under_way, "only 1 of 2 kills met enough in flight"),
    *((verdict_of(doctor), words) for doctor, words in DOCTORED),
]


class Directed(Conductor):
    """A conductor whose run has ended as the test says."""

    result: Result

    def run(self) -> Result:
        return self.result

    @classmethod
    def to(cls, result: Result) -> type[Self]:
        return type("To", (cls,), {"result": result})


def exit_code(result: Result, patch: pytest.MonkeyPatch, *more: str) -> int:
    """Of the whole command, over a run that found this."""
    for kind in ("Conductor", "ServedConductor"):
        patch.setattr(demo, kind, Directed.to(result))
    return main(["demo", "--messages", "20000", *more])


def test_the_demo_ends_with_0_where_every_promise_was_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert a_result().kept
    assert exit_code(a_result(), monkeypatch) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(
        "20,000 messages of 20 B to 4 KiB over 50 subjects, due within 10 s, published durably"
    )
    assert printed[1:] == list(lines(a_result()))
    assert exit_code(a_result(), monkeypatch, "--server") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("published durably over TCP to a server that is killed 2 times")


@pytest.mark.parametrize(("breaking", "words"), BREAKING)
def test_the_demo_ends_with_1_and_names_the_promise_that_was_broken(
    breaking: Callable[[Result], None],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = a_result()
    breaking(result)
    assert not result.kept
    assert exit_code(result, monkeypatch) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("BROKEN: ") and words in line]
    assert printed[-1] == BROKEN
    assert KEPT not in printed
