"""What tasks of an audit account for, without Spark: in what is whole nothing is wrong, what is planted is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings

import delaymq
from crafting import flip
from delaymq import InvalidArgument
from delaymq.spark.jobs.audit import PERCENTILES, Audit, audited, percentiles
from delaymq.spark.jobs.discrepancies import discrepancies
from delaymq.spark.plan import Part, TableOptions
from delaymq.testing import Clock
from spark.jobs import planting
from tables import stores
from tables.worlds import Step, World, histories

Task = Callable[[Part], Iterable[pyarrow.RecordBatch]]


def here(parts: list[Part], task: Task) -> list[dict[str, Any]]:
    """Runs tasks in this process."""
    return [row for part in parts for batch in task(part) for row in batch.to_pylist()]


def audit_of(path: Path, stuck_after: float = 3600, split_bytes: int = 1 << 16) -> Audit:
    return audited(TableOptions(path=str(path), split_bytes=split_bytes), here, stuck_after=stuck_after)


def test_nothing_is_wrong_with_a_rich_store(tmp_path: Path) -> None:
    found = audit_of(stores.rich(tmp_path / "store"))
    assert found.findings == ()
    assert found.is_clean
    assert found.not_audited == ()
    assert found.outcomes == {"cancelled": 24, "pending": 585, "ready": 200, "refused": 1}
    assert found.messages == sum(found.outcomes.values())
    assert found.delivered_late_ms == {}
    assert list(found.dispatched_late_ms) == list(PERCENTILES)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_nothing_is_wrong_with_what_is_whole(tmp_path_factory: pytest.TempPathFactory, history: list[Step]) -> None:
    path = tmp_path_factory.mktemp("world") / "store"
    World(path).tell(history)
    found = audit_of(path, stuck_after=10**9)
    assert found.findings == ()
    assert found.is_clean


def test_what_no_consumer_received_is_no_delivery(tmp_path: Path) -> None:
    """Messages that had expired or did not pass filters were assigned all the same: sums, and rows, say that they were
    not handed over.
    """
    path = tmp_path / "store"
    expiring: list[Step] = [("expiring", 0, 8), ("expiring", 0, 9), ("advance", 0, 5), ("ack", 0, 0)]
    World(path).tell([*expiring, ("publish", 0, 59), ("advance", 0, 5), ("sift", 0, 3)])
    looks: list[Any] = []

    def run(parts: list[Part], task: Any) -> list[dict[str, Any]]:
        looks.append(task.args[0])
        return here(parts, task)

    found = audited(TableOptions(path=str(path)), run, stuck_after=10**9)
    assert found.is_clean
    assert min(found.outcomes[word] for word in ("expired", "expired_dead_letter", "filtered", "acknowledged")) > 0
    assert not any("assigned" in wanted for wanted in looks if isinstance(wanted, dict))

    def forged(parts: list[Part], task: Any) -> list[dict[str, Any]]:
        is_tally = not isinstance(task.args[0], dict)
        return run(parts, task) + [told("assigned", "a g", count=10**6)] * is_tally

    assert audited(TableOptions(path=str(path)), forged, stuck_after=10**9).is_clean
    assert any("assigned" in wanted for wanted in looks if isinstance(wanted, dict))


def kinds_of(found: Audit) -> list[tuple[str, int | None]]:
    return [(one.kind, one.sequence) for one in found.findings]


def test_what_is_lost_doubled_early_and_corrupt_is_found(tmp_path: Path) -> None:
    path = planting.waiting(tmp_path / "store")
    assert audit_of(path).is_clean
    lost, doubled = planting.lose_and_double(path)
    early = planting.hasten(path)
    damaged = planting.corrupt(path)
    for split_bytes in (1 << 12, 1 << 30):
        found = audit_of(path, split_bytes=split_bytes)
        assert {("lost", lost), ("doubled", doubled), ("early", early)} <= set(kinds_of(found))
        [corrupt] = [one for one in found.findings if one.kind == "corrupt"]
        assert corrupt.words.startswith(damaged)
        # Both rows of what is doubled are wrong: the second is under another time, too.
        assert found.found == {"lost": 1, "doubled": 1, "early": 1, "corrupt": 1, "stuck": 0}
        assert not found.is_clean
        assert found.messages == planting.MESSAGES


def test_what_several_tables_meet_is_told_once(tmp_path: Path) -> None:
    path = planting.waiting(tmp_path / "store")
    [segment] = [one for one in (path / "log").iterdir() if b"body 017" in one.read_bytes()]
    flip(segment, segment.read_bytes().index(b"DMQBATCH", 8_000) + 40)  # the header of a batch
    found = audit_of(path)
    assert found.found["corrupt"] == len([one for one in found.findings if one.kind == "corrupt"]) == 1
    assert not found.is_clean


def test_what_waits_for_too_long_is_stuck(tmp_path: Path) -> None:
    clock = Clock()
    with delaymq.open(tmp_path / "store", clock=clock, durability="os") as store:
        store.publish("orders", b"nobody takes it", delay=60)
        store.publish("nobody", b"nobody subscribes", delay=60)
        with store.subscribe("orders", group="g", in_flight_max=1) as messages:
            clock.advance(120)
            held = messages.get(10)
            assert held is not None
            store.publish("orders", b"not taken", delay=60)
            clock.advance(120)
            clock.advance(7_200)
            store.publish("orders", b"so that time is known", delay=60)
            store.checkpoint()
            found = audit_of(tmp_path / "store")
            assert audit_of(tmp_path / "store", stuck_after=3 * 3_600).is_clean
    words = sorted(one.words for one in found.findings)
    assert words == ["delivered and neither acknowledged nor given back", "ready and not taken"]
    assert {one.group for one in found.findings} == {"g"}
    assert found.found["stuck"] == 2


def test_what_was_retired_is_not_audited(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os", segment_bytes=1 << 16, keep_finished=0) as store:
        first = 1
        while first == 1:
            store.cancel_many(store.publish_many("gone", [bytes(2_000)] * 10, 3600))
            store.checkpoint()
            with delaymq.snapshot(tmp_path / "store") as snapshot:
                first = snapshot.first_sequence
    found = audit_of(tmp_path / "store")
    assert found.is_clean
    assert found.not_audited == ((1, found.first_sequence),)
    assert found.first_sequence > 1


def test_a_snapshot_is_accounted_for_as_it_was(tmp_path: Path) -> None:
    planting.waiting(tmp_path / "store")
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        before = audit_of(tmp_path / "store")
        with delaymq.open(tmp_path / "store") as store:
            store.publish_many("later", [b"body"] * 10, 3600)
        asked = TableOptions(path=str(tmp_path / "store"), snapshot=snapshot.name)
        assert audited(asked, here) == before
    after = audit_of(tmp_path / "store")
    assert (after.messages - before.messages, after.end_sequence > before.end_sequence) == (10, True)
    with pytest.raises(InvalidArgument, match="snapshot"):
        audited(replace(asked, snapshot="00"), here)


def test_a_part_of_a_store_is_refused(tmp_path: Path) -> None:
    planting.waiting(tmp_path / "store")
    with pytest.raises(InvalidArgument, match="nothing that leaves out some of it"):
        audited(TableOptions(path=str(tmp_path / "store"), subjects=("orders",)), here)


def told(kind: str, words: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "words": words, "sequence": None, "subject": None, "group": None, "count": None} | fields


def test_what_a_group_was_given_again_is_doubled() -> None:
    sums = [told("assigned", "a g", count=3), told("attempts", "a g", count=2), told("assigned", "b g", count=1)]
    sums.append(told("attempts", "b g", count=1))
    asked = []

    def look(wanted: dict[str, list[Any]], tables: tuple[str, ...]) -> list[dict[str, Any]]:
        asked.append((wanted, tables))
        given = [told("assigned", "7", value=number, count=1) for number in (0, 1, 1)]
        return [*given, *(told("attempts", "7", sequence=10 + at, value=at, count=1) for at in (0, 1))]

    [found] = discrepancies(sums, look)
    assert (found["kind"], found["sequence"]) == ("doubled", 11)
    assert asked == [({"assigned": ["a g"], "attempts": ["a g"]}, ("deliveries", "action"))]


def test_what_is_in_the_log_and_in_no_row_is_lost() -> None:
    prints = [
        told("stored", "print", sequence=0, count=2, value=9),
        told("told", "print", sequence=0, count=1, value=4),
    ]
    rows = [told("stored", "", sequence=5), told("stored", "", sequence=6), told("told", "", sequence=6)]
    [found] = discrepancies(prints, lambda *_: rows)
    assert (found["kind"], found["sequence"]) == ("lost", 5)


def test_what_was_refused_on_no_terms_is_lost() -> None:
    outcome = [told("outcome", "refused", count=3), told("told", "print", sequence=0, count=3, value=1)]
    outcome.append(told("stored", "print", sequence=0, count=3, value=1))
    rows = [told("terms", "", sequence=5, count=2), *(told("refused", "", sequence=at) for at in (6, 7, 8))]
    assert [one["sequence"] for one in discrepancies(outcome, lambda *_: rows)] == [8]


def test_percentiles_are_values_under_which_so_many_lie() -> None:
    assert percentiles({str(value): 1 for value in range(1, 1001)}) == {50: 500, 90: 900, 99: 990, 99.9: 999, 100: 1000}
    assert percentiles({}) == {}
