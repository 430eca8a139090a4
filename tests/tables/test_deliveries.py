"""The table `deliveries` against the second reader."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import delaymq
import delaymq.testing
from crafting import flip, place_of, until_told, wait_until
from delaymq import Corrupt, DamagedPayload, Publish, tables
from delaymq.testing import Clock
from format_reader.checkpoints import read_checkpoint
from format_reader.store import numbered
from qmq_client.bodies import ANY_OF, Consumer, Pull, TagFilter
from qmq_client.connection import Connection
from qmq_client.frame import SUCCESS
from tables import oracle
from tables.oracle_actions import actions
from tables.oracle_deliveries import Deliveries
from tables.worlds import Step, World

# Every word but those of damage: acknowledged and put away, given back and brought back, expired, removed.
QUEUES: list[Step] = [
    ("publish", 0, 59),
    ("publish", 1, 250),
    ("keyed", 3, 5),
    ("keyed", 3, 11),
    ("move", 1, 0),
    ("cancel", 2, 3),
    ("ack", 2, 0),
    ("advance", 11, 10),
    ("ack", 0, 1),
    ("bury", 0, 2),
    ("redrive", 0, 3),
    ("nack", 1, 2),
    ("checkpoint", 0, 0),
    ("advance", 20, 0),
    ("nack", 0, 0),
    ("remove_group", 1, 0),
    ("publish", 4, 12),
    ("advance", 1, 2),
    ("ack", 4, 0),
    ("remove_group", 4, 0),
    ("publish", 2, 30),
    ("ack", 2, 0),
    ("remove_group", 2, 0),
    ("publish", 2, 59),
    ("advance", 1, 2),
    ("expire", 2, 1),
    ("reopen", 0, 0),
    ("publish", 2, 30),
    ("ack", 5, 0),
    ("bury", 1, 0),
    ("checkpoint", 0, 0),
    ("publish", 0, 7),
    ("recur", 0, 0),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "store"
    World(folder).tell(QUEUES)
    return folder


EXPIRING: list[Step] = [
    ("publish", 1, 9),
    ("nack", 1, 9),
    ("advance", 1, 0),
    ("expiring", 1, 2),
    ("expiring", 1, 3),
    ("nack", 1, 1),
    ("advance", 3, 0),
    ("checkpoint", 0, 0),
    ("ack", 1, 40),
    ("ack", 4, 41),
    ("advance", 3, 0),
    ("ack", 1, 40),
    ("redrive", 1, 6),
    ("ack", 1, 40),
    ("reopen", 0, 0),
]


def test_what_expires_by_its_own_time_is_told_as_the_log_has_it(tmp_path: Path) -> None:
    World(tmp_path / "store").tell(EXPIRING)
    expected = Deliveries(tmp_path / "store").rows()
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        assert oracle.plain(snapshot.to_arrow_batches("deliveries")) == expected
        said = oracle.plain(snapshot.to_arrow_batches("action", columns=("kind", "group", "due", "reason")))
    assert {row["outcome"] for row in expected} >= {"expired", "expired_dead_letter", "acknowledged"}
    # One was given back before, and no other was received.
    assert {row["attempts"] for row in expected if row["outcome"].startswith("expired")} == {0, 1}
    assert all((row["delivered"] is None) == (row["attempts"] == 0) for row in expected if row["group"])
    expiries = [row for row in said if row["kind"] == "expire"]
    assert expiries
    assert all(row["due"] is None and row["group"] is not None for row in expiries)
    assert {row["reason"] for row in said if row["kind"] == "expired_dead_letter"} == {"expired"}


def test_what_filters_keep_back_is_told_as_the_log_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    wanted, one = (TagFilter(ANY_OF, ("a",)),), Consumer("quiet", "g", "one")
    with (
        delaymq.open(folder, durability="os") as store,
        delaymq.testing.serve(store) as server,
        Connection(server.url.removeprefix("delaymq://")) as client,
    ):
        assert client.pull(Pull(one)) is None
        store.publish_many([Publish("quiet", b"m", tags=[tag]) for tag in ("b", "a", "b", "c", "a", "b")])
        found = client.pull(Pull(one, count=1, hold_ms=20_000, filters=wanted))
        assert found is not None
        assert client.acknowledge(one, found.first, found.last) == SUCCESS
        found = client.pull(Pull(one, last_received=found.last, hold_ms=20_000, filters=wanted))
        assert found is not None
        wait_until(lambda: client.pull(Pull(one, last_received=1, filters=wanted)) is None and lag(store) == 1)
    expected = Deliveries(folder).rows()
    with delaymq.snapshot(folder) as snapshot:
        assert oracle.plain(snapshot.to_arrow_batches("deliveries")) == expected
        acted = oracle.plain(snapshot.to_arrow_batches("action"))
        assert [row | {"ranges": row["ranges"] and json.loads(row["ranges"])} for row in acted] == actions(folder)
        assert {row["kind"] for row in actions(folder)} >= {"pass_over", "assign", "acknowledge"}
    assert [row["outcome"] for row in expected] == [
        "filtered",
        "acknowledged",
        *["filtered"] * 2,
        "in_flight",
        "filtered",
    ]
    assert {row["attempts"] for row in expected if row["outcome"] == "filtered"} == {0}


def test_what_the_filters_of_a_subscription_keep_back_was_not_delivered(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with delaymq.open(folder, durability="os") as store:
        store.publish_many([Publish("quiet", b"m", tags=[tag]) for tag in ("b", "a", "b", "a", "c")])
        with store.subscribe("quiet", group="g", tags=["a"]) as messages:
            one, two = messages.get(10), messages.get(10)
            assert one is not None
            assert two is not None
            one.ack()
            two.nack(0)
        # The message that was given back does not pass the filters of the next consumer.
        with store.subscribe("quiet", group="g", tags=["b"]) as messages:
            wait_until(lambda: messages.get(0) is None and lag(store) == 0)
    expected = Deliveries(folder).rows()
    with delaymq.snapshot(folder) as snapshot:
        assert oracle.plain(snapshot.to_arrow_batches("deliveries")) == expected
        acted = oracle.plain(snapshot.to_arrow_batches("action"))
        assert [row | {"ranges": row["ranges"] and json.loads(row["ranges"])} for row in acted] == actions(folder)
    told = [
        (row["outcome"], row["attempts"], row["delivered"] is not None, row["acknowledged"] is not None)
        for row in expected
    ]
    kept_back, received = ("filtered", 0, False, False), ("acknowledged", 1, True, True)
    assert told == [kept_back, received, kept_back, ("filtered", 1, True, False), kept_back]
    assert sum(row["count"] for row in acted if row["kind"] == "filter") == 4
    assert sum(row["count"] for row in acted if row["kind"] == "acknowledge") == 1


def test_the_words_of_a_consumer_are_not_taken_for_an_expiry(tmp_path: Path) -> None:
    clock = Clock()
    with delaymq.open(tmp_path / "store", clock=clock, durability="os") as store:
        rows = [Publish("a", b"%d" % at, expires=60, on_expiry="dead_letter") for at in range(2)]
        store.publish_many(rows)
        with store.subscribe("a", group="g", in_flight_max=1) as messages:
            message = messages.get(10)
            assert message is not None
            message.dead_letter("expired")
            clock.advance(60)
            assert messages.get(0) is None
        assert [(one.reason, one.attempt) for one in store.dead_letters("a", "g")] == [("expired", 1), ("expired", 0)]
        assert [subject.expired for subject in store.subjects()] == [1]
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        found = oracle.plain(snapshot.to_arrow_batches("deliveries", columns=("outcome", "attempts")))
        said = oracle.plain(snapshot.to_arrow_batches("action", columns=("kind", "reason", "attempt")))
    assert [tuple(row.values()) for row in found] == [("dead_letter", 1), ("expired_dead_letter", 0)]
    dead = [tuple(row.values()) for row in said if row["reason"] is not None]
    assert dead == [("dead_letter", "expired", 1), ("expired_dead_letter", "expired", 0)]


def lag(store: delaymq.Store) -> int:
    return sum(group.lag for group in store.groups())


def test_every_message_has_its_rows(folder: Path) -> None:
    expected = Deliveries(folder).rows()
    with delaymq.snapshot(folder) as snapshot:
        assert oracle.plain(snapshot.to_arrow_batches("deliveries")) == expected
        ranges = pickle.loads(pickle.dumps(snapshot.plan("deliveries", split_bytes=1)))
        assert len(ranges) > 3
        assert [row for one in ranges for row in oracle.plain(tables.read_range(folder, one))] == expected
        assert sum(one.rows_max for one in ranges) >= len(expected)
        facts = snapshot.end_sequence - snapshot.first_sequence
        assert sum(snapshot.verify(one).records for one in ranges) == facts
    words = {row["outcome"] for row in expected}
    assert words >= {"pending", "ready", "retrying", "acknowledged", "dead_letter", "expired", "cancelled", "refused"}
    assert words >= {"removed", "skipped"}


def test_what_is_held_and_late_is_told_while_the_store_is_open(tmp_path: Path) -> None:
    clock = Clock()
    with delaymq.open(tmp_path / "store", clock=clock, durability="os") as store:
        store.publish_many("a", [b"%d" % number for number in range(5)], 60)
        store.publish("b", b"for nobody", delay=1)
        clock.advance(90)
        with store.subscribe("a", group="g") as g, store.subscribe("a", group="h") as h:
            mine, theirs = next(g.batches(3, wait=0)), next(h.batches(5, wait=0))
            g.ack(mine[:1])
            g.nack(mine[1:2], 600)
            h.ack(theirs)
            g.flush()
            h.flush()
            until_told(tmp_path / "store", "acknowledged", 6)
            with delaymq.snapshot(tmp_path / "store") as snapshot:
                rows = oracle.plain(snapshot.to_arrow_batches("deliveries"))
    words = [(row["group"], row["outcome"], row["attempts"], row["lateness_ms"]) for row in rows]
    late = 30_000
    assert words == [
        ("g", "acknowledged", 1, late),
        ("h", "acknowledged", 1, late),
        ("g", "retrying", 1, late),
        ("h", "acknowledged", 1, late),
        ("g", "in_flight", 1, late),
        ("h", "acknowledged", 1, late),
        ("g", "ready", 0, None),
        ("h", "acknowledged", 1, late),
        ("g", "ready", 0, None),
        ("h", "acknowledged", 1, late),
        (None, "ready", None, None),
    ]
    assert {word for _, word, _, _ in words} & set(tables.UNFINISHED) == {"retrying", "in_flight", "ready"}


def middle_of(rows: list[dict[str, Any]], name: str) -> Any:
    known = sorted(row[name] for row in rows if row[name] is not None)
    return known[len(known) // 2]


@pytest.mark.parametrize(
    ("table", "times"), [("deliveries", "published"), ("ready", "ready"), ("action", "time")], ids=lambda one: one
)
def test_every_option_is_the_same_filter(folder: Path, table: str, times: str) -> None:
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.plain(snapshot.to_arrow_batches(table))
        sequence, time_, due = (middle_of(rows, name) for name in ("sequence", times, "due"))
        for asked, keeps in (
            ({"subjects": ["a", "größe"]}, lambda row: row["subject"] in {"a", "größe"}),
            ({"subjects": ["nobody"]}, lambda _: False),
            ({"first_sequence": sequence}, lambda row: row["sequence"] >= sequence),
            ({"end_sequence": sequence}, lambda row: row["sequence"] < sequence),
            ({"published_from": time_}, lambda row: row[times] >= time_),
            ({"published_before": time_}, lambda row: row[times] < time_),
            ({"due_from": due}, lambda row: row["due"] is not None and row["due"] >= due),
            ({"due_before": due}, lambda row: row["due"] is not None and row["due"] < due),
            ({"first_sequence": 9, "end_sequence": sequence}, lambda row: 9 <= row["sequence"] < sequence),
        ):
            expected = [row for row in rows if keeps(row)]
            for split_bytes in (1, 1 << 40):
                ranges = snapshot.plan(table, split_bytes=split_bytes, **asked)
                assert [row for one in ranges for row in oracle.plain(snapshot.read(one))] == expected, asked
        names = ("outcome", "sequence") if table == "deliveries" else ("sequence", "subject")
        found = oracle.plain(snapshot.to_arrow_batches(table, columns=names))
        assert found == [{name: row[name] for name in names} for row in rows]
        assert sum(len(batch) for batch in snapshot.to_arrow_batches(table, columns=())) == len(rows)


def test_time_leaves_out_what_it_can(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        whole = snapshot.plan("deliveries", split_bytes=1)
        published = [row["published"] for row in oracle.plain(snapshot.to_arrow_batches("deliveries"))]
        bounds = {"deliveries": {"published_before": published[1]}, "ready": {"published_from": published[-1]}}
        for table, bound in {**bounds, "action": {"published_from": published[-1]}}.items():
            everything = snapshot.plan(table, split_bytes=1)
            assert 0 < len(snapshot.plan(table, split_bytes=1, **bound)) < len(everything)
        assert len(snapshot.plan("deliveries", split_bytes=1, first_sequence=whole[-1].first_sequence)) == 1


def covered(folder: Path) -> int:
    """Facts below are not needed to know what a store is."""
    newest = list(numbered(folder / "checkpoints", "checkpoint").values())[-1]
    return int(read_checkpoint(newest.read_bytes())["body"]["position"]["next_sequence"])


def check_told(found: list[dict[str, Any]], whole: list[dict[str, Any]]) -> None:
    """What is not finished is told as it is, and of the rest nothing is told otherwise: but before damage that hides
    numbers, a dead letter does not say that its message had expired.
    """
    by_row = {(row["sequence"], row["group_number"]): row for row in whole}
    for row in found:
        theirs = by_row.get((row["sequence"], row["group_number"]))
        if theirs is None:
            assert row["group_number"] is None
            assert row["outcome"] == "finished"
            continue
        is_dead = (row["outcome"], theirs["outcome"]) == ("dead_letter", "expired_dead_letter") and row[
            "number"
        ] is None
        if row["outcome"] != theirs["outcome"] and not is_dead:
            assert theirs["outcome"] not in tables.UNFINISHED, (row, theirs)
            assert row["outcome"] == "finished", (row, theirs)
        assert row["number"] in {None, theirs["number"]}
        assert row["due"] == theirs["due"] or theirs["outcome"] not in tables.UNFINISHED
    told = {(row["sequence"], row["group_number"]) for row in found}
    assert told >= {key for key, row in by_row.items() if row["outcome"] in tables.UNFINISHED}
    assert {row["sequence"] for row in found} == {row["sequence"] for row in whole}


KINDS = (
    "ready",
    "move",
    "cancel",
    "assign",
    "acknowledge",
    "filter",
    "retry",
    "dead_letter",
    "expired_dead_letter",
    "redrive",
    "expire",
    "consumer_end",
)


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_what_damage_hides_is_told_by_the_state_or_not_at_all(tmp_path: Path, kind: str, which: int) -> None:
    folder = tmp_path / "store"
    more = [*EXPIRING, ("sift", 0, 1)] if kind in {"filter", "expired_dead_letter"} else []
    World(folder).tell([*QUEUES, ("ack", 0, 0), ("nack", 0, 0), *more, ("checkpoint", 0, 0)])
    with delaymq.snapshot(folder) as snapshot:
        whole = oracle.plain(snapshot.to_arrow_batches("deliveries"))
        facts = oracle.plain(snapshot.to_arrow_batches("action"))
        spoiled = [row for row in facts if row["kind"] == kind and row["sequence"] < covered(folder)][which]
        flip(folder / spoiled["segment"], spoiled["offset"] + 17)
        ranges = snapshot.plan("deliveries", split_bytes=1)
        rows = [snapshot.read(one, on_damage="report") for one in ranges]
        found = [row for one in rows for row in oracle.plain(one)]
        damages = [(damage.path, damage.offset) for one in rows for damage in one.damages]
        assert {path for path, _ in damages} == {spoiled["segment"]}
        verified = [(one.path, one.offset) for part in ranges for one in snapshot.verify(part).damages]
        assert verified == damages
        with pytest.raises(Corrupt):
            list(snapshot.to_arrow_batches("deliveries"))
        with pytest.raises(Corrupt):
            list(snapshot.read(ranges[0]))
    check_told(found, whole)


def test_a_segment_that_is_gone_hides_nothing_that_is_owed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    steps: list[Step] = [("publish", 0, 59), ("advance", 12, 0), ("nack", 0, 1), ("checkpoint", 0, 0), ("reopen", 0, 0)]
    World(folder).tell([*QUEUES, ("reopen", 0, 0), *steps, *steps, ("ack", 0, 0), ("checkpoint", 0, 0)])
    with delaymq.snapshot(folder) as snapshot:
        whole = oracle.plain(snapshot.to_arrow_batches("deliveries"))
        segments = [row for row in oracle.plain(snapshot.to_arrow_batches("segments")) if row["log"] == "message"]
        gone = segments[len(segments) // 2]
        assert gone["end_sequence"] < covered(folder)
        (folder / gone["path"]).unlink()
        rows = snapshot.to_arrow_batches("deliveries", on_damage="report")
        found = oracle.plain(rows)
        assert {damage.path for damage in rows.damages} == {gone["path"]}
    between = range(gone["base_sequence"], gone["end_sequence"])
    check_told(found, [row for row in whole if row["sequence"] not in between])


def test_an_id_in_a_damaged_payload_is_not_told(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os") as store:
        store.publish_many(
            [Publish("a", b"body-%d" % number, delay=60, message_id=f"id-{number}") for number in range(3)]
        )
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        flip(*place_of(tmp_path / "store", b"body-1"))
        rows = snapshot.to_arrow_batches("deliveries", on_damage="report")
        assert [row["message_id"] for row in oracle.plain(rows)] == ["id-0", None, "id-2"]
        (damage,) = rows.damages
        assert damage.sequence is not None
        with pytest.raises(DamagedPayload):
            list(snapshot.to_arrow_batches("deliveries"))
        named = oracle.plain(snapshot.to_arrow_batches("deliveries", columns=("sequence", "outcome")))
        assert [row["outcome"] for row in named] == ["pending"] * 3


def test_what_was_refused_on_terms_is_refused_and_nothing_that_was_kept_is(tmp_path: Path) -> None:
    """A batch with a key that is taken is stored not at all; its records are in the log all the same."""
    with delaymq.open(tmp_path / "store") as store:
        kept = store.publish("a", b"kept", delay=60, key="k", if_exists="error")
        with pytest.raises(delaymq.KeyTaken):
            store.publish_many(
                [
                    Publish("a", b"with it", delay=60, key="l", if_exists="error"),
                    Publish("a", b"taken", delay=60, key="k", if_exists="error"),
                ]
            )
        store.publish("a", b"once", delay=0, message_id="m", deduplicate=True)
        store.publish("a", b"again", delay=0, message_id="m", deduplicate=True)
    with delaymq.snapshot(tmp_path / "store") as snapshot:
        bodies = {row["sequence"]: row["body"] for row in oracle.read(snapshot.to_arrow_batches("message"))}
        rows = oracle.read(snapshot.to_arrow_batches("deliveries"))
    assert {bodies[row["sequence"]]: row["outcome"] for row in rows} == {
        b"kept": "pending",
        b"with it": "refused",
        b"taken": "refused",
        b"once": "ready",
        b"again": "refused",
    }
    assert next(row["sequence"] for row in rows if row["outcome"] == "pending") == kept.sequence
