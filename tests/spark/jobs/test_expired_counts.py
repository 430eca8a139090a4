"""How many messages have expired: by the store, its metrics, `inspect`, the tables and the audit, and after a crash."""

from __future__ import annotations

import urllib.request
from collections import Counter
from pathlib import Path

import delaymq
import delaymq.testing
from crafting import one, until_told
from delaymq import Publish
from delaymq.testing import Clock
from spark.jobs.test_accounting import audit_of
from tables import oracle
from tables.oracle_deliveries import Deliveries

OUTCOMES = {"acknowledged": 1, "dead_letter": 1, "expired": 6, "expired_dead_letter": 3}
BY_SUBJECT = {"a": 7, "b": 2}


def use(store: delaymq.Store, clock: Clock) -> None:
    """One message is acknowledged, one put away with the word `expired`, and nine expire."""
    short, dead = {"expires": 8.0}, {"expires": 8.0, "on_expiry": "dead_letter"}
    with store.subscribe("a", group="g", in_flight_max=2) as messages:
        store.publish_many([Publish("a", b"in time", **short), Publish("a", b"put away", **dead)])  # type: ignore[arg-type]
        one(messages).ack()
        one(messages).dead_letter("expired")
        store.publish_many([Publish("a", b"retried", **short), Publish("a", b"retried", **dead)])  # type: ignore[arg-type]
        for _ in range(2):
            one(messages).nack(5)
        messages.flush(5)
        rows = [Publish("a", b"of no use", **options) for options in (short, dead, short, dead, short)]
        store.publish_many(rows)
        clock.advance(8)
        assert messages.get(0) is None
        messages.flush(5)
    store.publish_many("b", [b"nobody takes it"] * 2)
    clock.advance(8)
    assert store.expire("b", older_than=4) == 2


def expired_by_subject(subjects: object) -> dict[str, int]:
    return {one.name: one.expired for one in subjects if one.name in BY_SUBJECT}  # type: ignore[attr-defined]


def outcomes_of(folder: Path) -> dict[str, int]:
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.plain(snapshot.to_arrow_batches("deliveries"))
    assert rows == Deliveries(folder).rows()
    # Those that were given back were received once, and no other.
    of_a = [row for row in rows if row["subject"] == "a" and row["outcome"].startswith("expired")]
    received = Counter(row["attempts"] for row in of_a)
    assert received == {0: 5, 1: 2}
    return dict(Counter(row["outcome"] for row in rows))


def check(store: delaymq.Store, folder: Path) -> None:
    until_told(folder, "expired", OUTCOMES["expired"])  # a reader without the lock sees a fact a little later
    assert expired_by_subject(store.subjects()) == BY_SUBJECT
    assert expired_by_subject(delaymq.inspect(folder).subjects) == BY_SUBJECT
    assert sum(one.expired for one in delaymq.inspect(folder).subjects) == sum(BY_SUBJECT.values())
    assert outcomes_of(folder) == OUTCOMES
    audited = audit_of(folder, stuck_after=10**9)
    assert audited.findings == ()
    assert audited.outcomes == OUTCOMES
    letters = [(letter.reason, letter.attempt) for letter in store.dead_letters("a", "g")]
    assert sorted(letters) == [("expired", 0), ("expired", 0), ("expired", 1), ("expired", 1)]


def test_all_that_count_agree_also_after_a_crash(tmp_path: Path) -> None:
    folder, clock = tmp_path / "store", Clock()
    store = delaymq.open(folder, clock=clock, durability="disk")
    with delaymq.testing.serve(store) as server:
        use(store, clock)
        core = server._core
        assert core is not None
        with urllib.request.urlopen(f"http://{core.addresses()[1]}/metrics", timeout=20) as answer:
            metrics = answer.read().decode().splitlines()
        assert "delaymq_expired_messages_total 9" in metrics
        assert store.status().expired == 9
        check(store, folder)
        server.crash()
        assert server.store.status().expired == 0
        check(server.store, folder)
    server.store.close()
