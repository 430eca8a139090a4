"""Doctored histories: each has one thing wrong, and the checker names it; their good twins pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checker.findings import NAMES
from checker.verdict import Verdict, judge

TESTS = Path(__file__).parents[1]
Line = dict[str, Any]


class Story:
    """A ledger in the making: the clock goes on by ten milliseconds a line."""

    def __init__(self, **options: object) -> None:
        self.at_ms = 1_000_000
        self.lines: list[Line] = []
        self.add("run", harness="doctored", seed=1, options=options)
        self.add("start", epoch=1)
        self.add("group", subject="s", group="g")

    def add(self, kind: str, **fields: object) -> Story:
        self.at_ms += 10
        self.lines.append({"kind": kind, "at_ms": self.at_ms, **fields})
        return self

    def publish(self, name: str, result: str = "acknowledged", **fields: object) -> Story:
        timed = {} if "due_ms" in fields else {"delay_ms": 0}
        self.add("publish", **{"id": name, "subject": "s", "digest": f"of {name}", **timed, **fields})
        return self.add("published", id=name, result=result) if result else self

    def deliver(self, name: str, **fields: object) -> Story:
        told = {"group": "g", "consumer": "c1", "attempt": 1, "redelivered": False}
        return self.add("delivered", **{"id": name, "subject": "s", "digest": f"of {name}", **told, **fields})

    def again(self, name: str, **fields: object) -> Story:
        return self.deliver(name, **{"redelivered": True, "attempt": 2, **fields})

    def acknowledge(self, name: str, result: str = "acknowledged", group: str = "g") -> Story:
        self.add("acknowledge", id=name, group=group)
        return self.add("acknowledged", id=name, group=group, result=result) if result else self

    def killed(self, in_flight_max: int = 8, cause: str = "kill") -> Story:
        self.add("stop", cause=cause, in_flight_max=in_flight_max)
        epoch = sum(line["kind"] == "start" for line in self.lines) + 1
        return self.add("start", epoch=epoch)

    def whole(self, name: str) -> Story:
        return self.publish(name).deliver(name).acknowledge(name)

    def written(self, folder: Path) -> Path:
        path = folder / "ledger.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return path

    def judged(self, folder: Path, clocks_ms: int = 0) -> Verdict:
        self.add("drained")
        return judge(self.written(folder), clocks_ms)


def story() -> Story:
    """One that begins well."""
    return Story().whole("first")


def clean_story() -> Story:
    """Everything that may happen, and nothing that may not."""
    one = Story(lease_ms=500).whole("first").publish("refused", "refused").publish("never came", "ambiguous")
    one.publish("came all the same", "ambiguous").deliver("came all the same").acknowledge("came all the same")
    one.publish("far", due_ms=one.at_ms + 60).add("cancel", id="far").add("cancelled", id="far", result="done")
    one.publish("later").add("move", id="later", delay_ms=40).add("moved", id="later", result="done")
    one.at_ms += 30
    one.deliver("later").acknowledge("later")
    one.publish("now", due_ms=one.at_ms + 9_000).add("move", id="now", delay_ms=0).deliver("now").acknowledge("now")
    one.add("moved", id="now", result="done").add("move", id="now", delay_ms=900)
    one.add("moved", id="now", result="already_dispatched")
    one.publish("again").add("move", id="again", delay_ms=0).add("moved", id="again", result="done")
    one.deliver("again").acknowledge("again").add("move", id="again", delay_ms=0)
    one.add("moved", id="again", result="done")
    one.publish("perhaps").add("move", id="perhaps", delay_ms=9_000).deliver("perhaps").acknowledge("perhaps")
    one.publish("doubtful").add("cancel", id="doubtful")
    one.publish("too late").add("cancel", id="too late").add("cancelled", id="too late", result="already_dispatched")
    one.deliver("too late", number=7).acknowledge("too late", "ambiguous")
    one.publish("held").deliver("held", number=8).publish("cut off", "").killed(cause="cut")
    one.again("too late", consumer="c2").acknowledge("too late").again("held", consumer="c2", number=8)
    one.add("returned", id="held", group="g", delay_ms=30)
    one.at_ms += 30
    one.again("held", consumer="c3", attempt=3).add("left", consumer="c3")
    one.again("held", consumer="c4", attempt=4).acknowledge("held")
    one.publish("leased").deliver("leased", consumer="c4")
    one.at_ms += 500
    one.again("leased", consumer="c5").acknowledge("leased")
    one.publish("twice", "ambiguous").publish("twice").deliver("twice").deliver("twice").acknowledge("twice")
    one.publish("poison").deliver("poison").add("returned", id="poison", group="g", delay_ms=0)
    one.add("dead", id="poison", group="g")
    one.publish("a", "ambiguous", batch="both").publish("b", "ambiguous", batch="both")
    one.publish("x", "ambiguous", batch="none").publish("y", "ambiguous", batch="none")
    return one.deliver("a").acknowledge("a").deliver("b").acknowledge("b")


def test_a_clean_history_passes(tmp_path: Path) -> None:
    verdict = clean_story().judged(tmp_path)
    assert verdict.kind == "clean", verdict
    assert verdict.figures["duplicates"] == {
        "crash": 2,
        "lease": 2,
        "returned": 1,
        "ambiguous_publish": 1,
        "none": 0,
        "cap": 9,
        "largest_after_a_stop": 2,
    }
    assert verdict.figures["published"] == {"acknowledged": 12, "refused": 1, "ambiguous": 7}
    assert verdict.figures["moved"] == {"done": 4, "already_dispatched": 1, "not_found": 0}
    assert verdict.figures["stops"] == {"cut": 1}


def lost() -> Story:
    return story().publish("m").killed()


def lost_to_a_second_group() -> Story:
    return story().add("group", subject="s", group="h").publish("m").deliver("m").acknowledge("m")


def lost_although_the_cancel_came_too_late() -> Story:
    late = story().publish("m").add("cancel", id="m")
    return late.add("cancelled", id="m", result="already_dispatched")


def stuck() -> Story:
    return story().publish("m").deliver("m").add("left", consumer="c1")


def stuck_after_it_was_given_back() -> Story:
    return story().publish("m").deliver("m").add("returned", id="m", group="g", delay_ms=0)


def torn() -> Story:
    half = story().publish("a", "ambiguous", batch="one").publish("b", "ambiguous", batch="one").killed()
    return half.deliver("a").acknowledge("a")


def torn_without_an_answer() -> Story:
    half = story().publish("a", "", batch="one").publish("b", "", batch="one").killed()
    return half.deliver("b").acknowledge("b")


def early() -> Story:
    one = story()
    return one.publish("m", due_ms=one.at_ms + 31).deliver("m").acknowledge("m")


def early_by_its_delay() -> Story:
    return story().publish("m", delay_ms=21).deliver("m").acknowledge("m")


def early_although_it_was_moved() -> Story:
    moved = story().publish("m").add("move", id="m", delay_ms=100).add("moved", id="m", result="done")
    return moved.deliver("m").acknowledge("m")


def early_before_the_move_was_answered() -> Story:
    raced = story().publish("m").add("move", id="m", delay_ms=100).deliver("m").acknowledge("m")
    return raced.add("moved", id="m", result="done")


def early_after_a_doubtful_move_that_was_made_again() -> Story:
    moved = story().publish("m", due_ms=1_009_000).add("move", id="m", delay_ms=0)
    moved.add("move", id="m", delay_ms=100).add("moved", id="m", result="done")
    return moved.deliver("m").acknowledge("m")


def lost_although_it_was_moved() -> Story:
    return story().publish("m").add("move", id="m", delay_ms=0).add("moved", id="m", result="done")


def early_after_it_was_given_back() -> Story:
    back = story().publish("m").deliver("m").add("returned", id="m", group="g", delay_ms=11)
    return back.again("m").acknowledge("m")


def early_after_a_return_that_was_answered() -> Story:
    back = story().publish("m").deliver("m")
    back.add("returned", id="m", group="g", delay_ms=100, result="acknowledged").killed()
    return back.again("m").acknowledge("m")


def phantom() -> Story:
    return story().deliver("nobody's")


def phantom_of_another_subject() -> Story:
    return story().publish("m").deliver("m", subject="t").acknowledge("m")


def refused_and_delivered() -> Story:
    return story().publish("m", "refused").deliver("m")


def dead_and_never_published() -> Story:
    return story().add("dead", id="nobody's", group="g")


def corrupt() -> Story:
    return story().publish("m").deliver("m", digest="of another").acknowledge("m")


def resurrected() -> Story:
    taken = story().publish("m").add("cancel", id="m").add("cancelled", id="m", result="done")
    return taken.killed().deliver("m").acknowledge("m")


def finished_again() -> Story:
    return story().publish("m").deliver("m").acknowledge("m").killed().again("m", consumer="c2")


def dead_after_it_was_finished() -> Story:
    return story().publish("m").deliver("m").acknowledge("m").add("dead", id="m", group="g")


def unmarked() -> Story:
    return story().publish("m").deliver("m").killed().deliver("m", consumer="c2").acknowledge("m")


def out_of_order() -> Story:
    both = story().publish("m").publish("n").deliver("n", number=6).acknowledge("n")
    return both.deliver("m", number=5).acknowledge("m")


def unexplained() -> Story:
    return story().publish("m").deliver("m").again("m").acknowledge("m")


def unexplained_before_its_lease_was_over() -> Story:
    one = Story(lease_ms=500).whole("first").publish("m").deliver("m")
    one.at_ms += 480
    return one.again("m", consumer="c2").acknowledge("m")


def over_the_cap() -> Story:
    three = story()
    for name in "abc":
        three.publish(name).deliver(name)
    three.killed(in_flight_max=2)
    for name in "abc":
        three.again(name, consumer="c2").acknowledge(name)
    return three


def over_the_cap_of_one_of_two_stops() -> Story:
    three = story()
    for name in "abc":
        three.publish(name).deliver(name)
    three.killed(in_flight_max=2).killed(in_flight_max=8)
    for name in "abc":
        three.again(name, consumer="c2").acknowledge(name)
    return three


DOCTORED = [
    ("lost", lost),
    ("lost", lost_to_a_second_group),
    ("lost", lost_although_the_cancel_came_too_late),
    ("stuck", stuck),
    ("stuck", stuck_after_it_was_given_back),
    ("torn", torn),
    ("torn", torn_without_an_answer),
    ("early", early),
    ("early", early_by_its_delay),
    ("early", early_although_it_was_moved),
    ("early", early_before_the_move_was_answered),
    ("early", early_after_a_doubtful_move_that_was_made_again),
    ("lost", lost_although_it_was_moved),
    ("early", early_after_it_was_given_back),
    ("early", early_after_a_return_that_was_answered),
    ("phantom", phantom),
    ("phantom", phantom_of_another_subject),
    ("phantom", refused_and_delivered),
    ("phantom", dead_and_never_published),
    ("corrupt", corrupt),
    ("resurrected", resurrected),
    ("finished_again", finished_again),
    ("finished_again", dead_after_it_was_finished),
    ("unmarked", unmarked),
    ("order", out_of_order),
    ("unexplained", unexplained),
    ("unexplained", unexplained_before_its_lease_was_over),
    ("over_cap", over_the_cap),
    ("over_cap", over_the_cap_of_one_of_two_stops),
]


@pytest.mark.parametrize(("name", "told"), DOCTORED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_wrong_is_named_and_nothing_else(name: str, told: Any, tmp_path: Path) -> None:
    verdict = told().judged(tmp_path)
    assert verdict.kind == "broken"
    assert {found: count for found, count in verdict.findings.counts.items() if count} == {name: 1}
    assert verdict.findings.examples[name]


def test_every_finding_has_its_doctored_history() -> None:
    assert {name for name, _ in DOCTORED} | {"doubled"} == set(NAMES), "that one stands with keys and ids"


def test_clocks_that_differ_are_tolerated_as_far_as_is_said(tmp_path: Path) -> None:
    assert early().judged(tmp_path).findings.counts["early"] == 1
    assert early().judged(tmp_path, clocks_ms=1).kind == "clean"


def test_what_lay_in_a_socket_when_the_server_died_is_not_mistaken(tmp_path: Path) -> None:
    one = story().publish("m").killed().deliver("m", epoch=2, consumer="c2").acknowledge("m")
    assert one.again("m", epoch=1, consumer="c1").judged(tmp_path).kind == "clean"
    one = story().publish("m").killed().deliver("m", epoch=2, consumer="c2").acknowledge("m")
    assert one.again("m", epoch=2, consumer="c1").judged(tmp_path).findings.counts["finished_again"] == 1


def test_copies_of_a_message_that_was_sent_again_are_told_apart(tmp_path: Path) -> None:
    back = story().publish("m", "ambiguous").publish("m").deliver("m").add("returned", id="m", group="g", delay_ms=50)
    back.deliver("m").acknowledge("m").again("m").acknowledge("m")
    assert back.judged(tmp_path).kind == "clean"
    # The other copy is marked, as all that was reserved before a crash, and comes before the one that was given back.
    back = story().publish("m", "ambiguous").publish("m").deliver("m").add("returned", id="m", group="g", delay_ms=0)
    back.again("m").acknowledge("m").again("m").acknowledge("m")
    assert back.judged(tmp_path).kind == "clean"
    back.lines.pop()
    assert back.again("m").judged(tmp_path).findings.counts["finished_again"] == 1
    left = story().publish("m", "ambiguous").publish("m").deliver("m").deliver("m", consumer="c2").acknowledge("m")
    assert left.add("left", consumer="c1").again("m", consumer="c2").acknowledge("m").judged(tmp_path).kind == "clean"
    left.lines.pop()
    again = left.again("m", consumer="c3").judged(tmp_path)
    assert again.findings.counts["unexplained"] + again.findings.counts["finished_again"] > 0


def test_a_group_is_owed_nothing_from_before_it_came(tmp_path: Path) -> None:
    assert story().add("group", subject="s", group="late").whole("m").judged(tmp_path).findings.counts["lost"] == 1
    late = story().add("group", subject="s", group="late").whole("m").deliver("m", group="late")
    assert late.acknowledge("m", group="late").judged(tmp_path).kind == "clean"


def changed(number: int, **fields: object) -> Story:
    one = story()
    one.lines[number - 1].update(fields)
    return one


def without(number: int, name: str) -> Story:
    one = story()
    del one.lines[number - 1][name]
    return one


def only(*kinds: str) -> Story:
    one = story()
    one.lines = [line for line in one.lines if line["kind"] in kinds]
    return one


UNFIT = [
    ("line 3 is of an unknown kind: 'grope'", changed(3, kind="grope")),
    ("line 4: digest is missing", without(4, "digest")),
    ("line 4: at_ms is '12'", changed(4, at_ms="12")),
    ("line 5: result is 'perhaps'", changed(5, result="perhaps")),
    ("line 4: a publish has either due_ms or delay_ms", changed(4, due_ms=12)),
    ("line 4: delay_ms is True", changed(4, delay_ms=True)),
    ("'x', which was never published", story().add("published", id="x", result="refused")),
    ("'first' has a result and no attempt", story().add("published", id="first", result="refused")),
    ("no cancel", story().add("cancelled", id="first", result="done")),
    ("no move", story().add("moved", id="first", result="done")),
    ("none was sent", story().add("acknowledged", id="first", group="g", result="refused")),
    ("which its group never had", story().publish("m").add("acknowledge", id="m", group="g")),
    ("published again although it was answered", story().publish("first")),
    ("published again as something else", story().publish("m", "ambiguous").publish("m", digest="of another")),
    ("no publish was acknowledged", only("run", "start")),
    ("nothing was delivered", only("run", "start", "publish", "published")),
    ("has no group", story().publish("m", subject="unheard of")),
    ("stands after the end", story().add("drained").add("start", epoch=9)),
    ("the first line, and no other, is of kind run", story().add("run", harness="two", seed=1, options={})),
    ("lease_ms is 'long'", changed(1, options={"lease_ms": "long"})),
]


@pytest.mark.parametrize(("why", "told"), UNFIT, ids=[why for why, _ in UNFIT])
def test_a_ledger_that_cannot_be_judged_says_why(why: str, told: Story, tmp_path: Path) -> None:
    verdict = told.judged(tmp_path)
    assert verdict.kind == "unfit"
    assert why in verdict.why


@pytest.mark.parametrize("text", ["", "not JSON\n", "[]\n", '{"kind": "run"'])
def test_no_ledger_at_all_is_unfit(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(text, encoding="utf-8")
    assert judge(path).kind == "unfit"


def test_a_run_that_came_to_no_end_is_unfit(tmp_path: Path) -> None:
    verdict = judge(story().written(tmp_path))
    assert (verdict.kind, "came to no end" in verdict.why) == ("unfit", True)
    path = story().add("drained").written(tmp_path)
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    assert judge(path).kind == "unfit"


def process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "checker", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def test_the_process_tells_by_its_exit_code(tmp_path: Path) -> None:
    good, bad, none = (tmp_path / name for name in ("good", "bad", "none"))
    for folder, told in ((good, clean_story()), (bad, lost())):
        folder.mkdir()
        told.add("drained").written(folder)
    good, bad = good / "ledger.jsonl", bad / "ledger.jsonl"
    assert [process(*paths).returncode for paths in ((good,), (bad,), (none,))] == [0, 1, 2]
    assert [process(*paths).returncode for paths in ((good, bad), (none, bad), (good, none))] == [1, 1, 2]
    ended = process(bad, good, "--quiet")
    first, second = (json.loads(line) for line in ended.stdout.splitlines())
    assert (first["verdict"], second["verdict"]) == ("broken", "clean")
    assert first["findings"]["lost"] == 1
    assert "answered as stored, and a group never had it" in ended.stderr
    assert str(good) not in ended.stderr


def test_a_return_that_was_not_answered_may_be_lost_with_its_consumer(tmp_path: Path) -> None:
    back = story().publish("m").deliver("m").add("returned", id="m", group="g", delay_ms=90).add("left", consumer="c1")
    assert back.again("m", consumer="c2").acknowledge("m").judged(tmp_path).kind == "clean"
    told = story().publish("m").deliver("m")
    told.add("returned", id="m", group="g", delay_ms=90, result="acknowledged").add("left", consumer="c1")
    assert told.again("m", consumer="c2").acknowledge("m").judged(tmp_path).findings.counts["early"] == 1


def test_another_copy_that_comes_before_one_may_come_again_is_not_that_one(tmp_path: Path) -> None:
    both = story().publish("m", "ambiguous").killed().publish("m").again("m")
    both.add("returned", id="m", group="g", delay_ms=45).again("m").acknowledge("m")
    both.again("m", attempt=4).acknowledge("m")
    assert both.judged(tmp_path).kind == "clean"
