"""What an audit says of messages that were given back, or given out again: their schedule, and how long they wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import delaymq
from delaymq import Store, Subscription
from delaymq.spark.jobs.audit import Audit
from delaymq.spark.jobs.retry_findings import Moment, of_given_back
from delaymq.testing import Clock
from format_reader.records import Record
from spark.jobs import planting
from spark.jobs.test_accounting import audit_of, kinds_of, told
from tables.oracle import moment
from tables.oracle_deliveries import Deliveries
from tables.replaying import Entry
from tables.worlds import GROUPS, SUBJECTS, Step, World, histories

HOUR_S = 3_600


def words_of(found: Audit) -> list[str]:
    return sorted(one.words for one in found.findings)


def test_what_was_given_back_is_scheduled_once_and_under_its_time(tmp_path: Path) -> None:
    path = planting.given_back(tmp_path / "store")
    whole = audit_of(path)
    assert (whole.outcomes, whole.findings) == ({"retrying": 20}, ())
    lost, doubled = planting.lose_and_double(path, 10, 3)
    early = planting.hasten(path, 15)
    found = audit_of(path)
    assert kinds_of(found) == [("lost", lost), ("doubled", doubled), ("early", early)]
    assert found.found == {"lost": 1, "doubled": 1, "early": 1, "corrupt": 0, "stuck": 0}
    assert {one.subject for one in found.findings if one.kind == "lost"} == {"orders"}


def test_what_was_given_back_and_is_scheduled_too_late_or_waits_for_too_long_is_stuck(tmp_path: Path) -> None:
    path = planting.given_back(tmp_path / "store")
    late = planting.delay(path, 19)
    assert kinds_of(audit_of(path)) == [("stuck", late)]
    overdue = planting.make_due_long_ago(path)
    found = audit_of(path)
    assert sorted(kinds_of(found)) == sorted([("early", overdue), ("stuck", overdue), ("stuck", late)])
    assert "given back, due again and not dispatched" in words_of(found)


def test_what_is_due_while_dispatch_is_held_is_stuck_and_the_audit_says_that_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "store"
    clock = Clock()
    with delaymq.open(path, clock=clock, durability="os") as store:
        store.publish("orders", b"to be given back", delay=0)
        with store.subscribe("orders", group="g") as messages:
            clock.advance(1)
            given = messages.get(10)
            assert given is not None
            given.nack(0.2)
            messages.flush(5)
            store.publish("orders", b"never given", delay=0.2)
    # The wall clock is years behind what the log knows.
    with delaymq.open(path, durability="os") as store:
        assert store.status().held
        time.sleep(0.4)
        before = audit_now(store, path)
        found = audit_now(store, path, stuck_after=0.1)
    assert (before.findings, before.dispatch_held) == ((), True)
    assert words_of(found) == ["due and not dispatched", "given back, due again and not dispatched"]
    assert found.found["stuck"] == 2
    assert audit_of(path).dispatch_held, "closing does not end it"


def consumed(path: Path, does: Callable[[Store, Clock, Subscription], list[Audit]]) -> list[Audit]:
    """The audits of a store in which one message is delivered at first, and then what `does` says."""
    clock = Clock()
    with delaymq.open(path, clock=clock, durability="os") as store:
        store.publish("orders", b"one", delay=60)
        with store.subscribe("orders", group="g", in_flight_max=10) as messages:
            clock.advance(61)
            return does(store, clock, messages)


def audit_now(store: Store, path: Path, stuck_after: float = HOUR_S) -> Audit:
    """An audit as of now: the store's time is that of its last fact."""
    store.publish("ticks", b"tick", delay=10**6)
    store.checkpoint()
    return audit_of(path, stuck_after=stuck_after)


def test_what_is_delivered_again_is_stuck_since_then_and_not_since_the_first_time(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def does(store: Store, clock: Clock, messages: Subscription) -> list[Audit]:
        first = messages.get(10)
        assert first is not None
        first.nack(2 * HOUR_S)
        messages.flush(5)
        audits = [audit_now(store, path)]
        clock.advance(2 * HOUR_S + 1)
        again = messages.get(10)
        assert again is not None
        audits.append(audit_now(store, path))
        clock.advance(HOUR_S + 1)
        audits.append(audit_now(store, path))
        return audits

    waits, again, stuck = consumed(path, does)
    assert (waits.outcomes["retrying"], words_of(waits)) == (1, [])
    assert (again.outcomes["in_flight"], words_of(again)) == (1, [])
    assert words_of(stuck) == ["delivered and neither acknowledged nor given back"]


def test_what_another_consumer_takes_over_is_not_stuck_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def does(store: Store, clock: Clock, messages: Subscription) -> list[Audit]:
        assert messages.get(10) is not None
        clock.advance(2 * HOUR_S)
        messages.close()
        audits = [audit_now(store, path)]
        with store.subscribe("orders", group="g", in_flight_max=10) as others:
            assert others.get(10) is not None
            audits.append(audit_now(store, path))
            clock.advance(HOUR_S + 1)
            audits.append(audit_now(store, path))
        clock.advance(HOUR_S + 1)
        return [*audits, audit_now(store, path)]

    free, again, stuck, untaken = consumed(path, does)
    assert (free.outcomes["ready"], words_of(free)) == (1, [])
    assert (again.outcomes["in_flight"], words_of(again)) == (1, [])
    assert words_of(stuck) == ["delivered and neither acknowledged nor given back"]
    assert words_of(untaken) == ["ready and not taken"]


def test_what_was_given_back_and_nobody_takes_again_is_stuck(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def does(store: Store, clock: Clock, messages: Subscription) -> list[Audit]:
        first = messages.get(10)
        assert first is not None
        first.nack(60)
        messages.flush(5)
        messages.close()
        clock.advance(61)
        audits = [audit_now(store, path)]
        clock.advance(HOUR_S + 1)
        audits.append(audit_now(store, path))
        store.remove_group("orders", "g")
        return [*audits, audit_now(store, path)]

    due, stuck, removed = consumed(path, does)
    assert (due.outcomes["retrying"], words_of(due)) == (1, [])
    assert words_of(stuck) == ["given back, ready again and not taken"]
    assert removed.is_clean


def test_what_a_group_gave_back_that_ended_alone_waits_for_nobody() -> None:
    row = told("", "", sequence=7, subject="a", group="g")
    waits = [row | {"kind": "told again"}]
    sums = [told("told again", "print", sequence=0, count=1, value=5)]
    came = row | {"kind": "ready again", "words": "[20, 1000]", "value": 3}
    end = told("ended", "", sequence=30, subject="a", group="g", value=2_000)

    def stuck(*facts: dict[str, Any]) -> list[str]:
        def look(wanted: dict[str, list[Any]], _tables: tuple[str, ...]) -> list[dict[str, Any]]:
            return waits if "told again" in wanted else list(facts)

        return [one["words"] for one in of_given_back(sums, look, Moment(10**9, 1))]

    assert stuck(came) == ["given back, ready again and not taken"]
    assert stuck(came, end) == []
    assert stuck() == ["given back, and in no schedule"]


class Waits(Deliveries):
    """A log, fact by fact, with since when each message of a group is held, or waits after it was."""

    def __init__(self, folder: Path) -> None:
        self.since: dict[tuple[int, int], datetime] = {}
        super().__init__(folder)

    def _assign(self, record: Record) -> None:
        before = {key: one.attempts for key, one in self.given.items()}
        super()._assign(record)
        self._note(key for key, one in self.given.items() if one.attempts != before.get(key))

    def _consumer_end(self, record: Record) -> None:
        held = [key for key, one in self.given.items() if one.outcome == "in_flight"]
        super()._consumer_end(record)
        self._note(key for key in held if self.given[key].outcome != "in_flight")

    def _make_ready(self, entry: Entry, fact: int) -> None:
        super()._make_ready(entry, fact)
        if entry.sequence in self.retries:
            self._note([self.retries[entry.sequence]])

    def _note(self, keys: Iterable[tuple[int, int]]) -> None:
        self.since.update((key, self._now) for key in keys)

    def stuck(self, before: datetime) -> list[tuple[int, str | None, str]]:
        """What waits since before a moment: the message, the group and the outcome."""
        found = []
        for row in self.rows():
            outcome, key = row["outcome"], (row["sequence"], row["group_number"])
            since = self.since.get(key, row["ready"])
            given = self.given.get(key)
            if outcome == "pending":
                since = row["due"]
            elif outcome == "retrying" and given is not None and given.retry is not None:
                entry = self.pending.get(given.retry[0])
                since = self.since.get(key) if entry is None else moment(entry.due_ms)
                if entry is None and row["group_number"] in self.group_ended:
                    continue
            waits = outcome in {"pending", "in_flight", "retrying"} or (outcome == "ready" and row["group"])
            if waits and since is not None and since < before:
                found.append((row["sequence"], row["group"], outcome))
        return sorted(found, key=str)


OUTCOMES = {
    "due and not dispatched": "pending",
    "ready and not taken": "ready",
    "delivered and neither acknowledged nor given back": "in_flight",
    "given back, due again and not dispatched": "retrying",
    "given back, ready again and not taken": "retrying",
}


class Leaving(World):
    """Its consumers may leave what they were given."""

    def _leave(self, which: int, count: int) -> None:
        self._consume(which, count, lambda _subscription, _messages: None)


def narrow() -> st.SearchStrategy[list[Step]]:
    """Histories of one subject and one group, so that much is given back, left, and given out again."""
    names = st.sampled_from(("nack", "nack", "leave", "leave", "ack", "redrive", "bury"))
    turn = st.tuples(names, st.integers(0, 300), st.sampled_from((1, 31, 700, 4_000, 8_000)))
    steps = st.lists(turn, min_size=1, max_size=7).map(
        lambda turns: [step for name, count, seconds in turns for step in ((name, 0, count), ("advance", 0, seconds))]
    )
    return steps.map(lambda told: [("publish", 0, 4), ("advance", 0, 10), *told])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    narrow() | histories(),
    st.sampled_from((1, 60, 1_000, 7_000)),
    st.sampled_from((0, 0, 3)),
    st.sampled_from((0, 0, 5_000)),
)
def test_what_is_stuck_is_what_waits_for_so_long_by_the_facts(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step], stuck_after: int, which: int, seconds: int
) -> None:
    path = tmp_path_factory.mktemp("world") / "store"
    world = Leaving(path, keep_finished=timedelta(days=10_000))
    for name, *numbers in history:
        getattr(world, f"_{name}")(*numbers)
    with world.store.subscribe(SUBJECTS[which % 3], group=GROUPS[which % 2], in_flight_max=30) as held:
        next(held.batches(20, wait=0), [])
        world.clock.advance(seconds)
        found = audit_now(world.store, path, stuck_after)
        expected = Waits(path).stuck(found.as_of - timedelta(seconds=stuck_after))
    world.store.close()
    assert {one.kind for one in found.findings} <= {"stuck"}
    listed = [(one.sequence, one.group, OUTCOMES[one.words]) for one in found.findings]
    assert sorted(listed, key=str) == expected
