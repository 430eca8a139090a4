"""A store that another build left behind is managed as any other: messages are moved, cancelled, listed and counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq import Fate, KeyTaken, Moved, Outcome, Publish, Receipt, _core
from delaymq.testing import Clock
from format_reader.golden import laid
from tables import oracle

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class FoundStore:
    """The golden store, open."""

    def __init__(self, folder: Path) -> None:
        self.folder = laid(folder)
        with delaymq.snapshot(self.folder) as snapshot:
            self.clock = Clock(snapshot.trusted)
        self.store = delaymq.open(self.folder, clock=self.clock)

    def scanned(self) -> list[oracle.Row]:
        """All that is pending, row by row from the files, once the end of the log is vouched for."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with delaymq.snapshot(self.folder) as snapshot:
                if snapshot.end_sequence == self.store.status().accepted:
                    return oracle.read(snapshot.to_arrow_batches("pending"))
            time.sleep(0.01)
        raise AssertionError("the end of the log is not vouched for")

    def check(self) -> None:
        """Lists, counts and forecasts are those of a full scan."""
        rows = self.scanned()
        listed = [(one.receipt.sequence, one.subject, one.due) for one in self.store.pending(prefix="")]
        assert listed == [(row["sequence"], row["subject"], row["due"]) for row in rows]
        subjects = Counter(row["subject"] for row in rows)
        counts = self.store.pending_counts(prefix="")
        assert {subject: count for subject, count in counts.items() if count} == subjects
        assert self.store.status().pending == len(rows)
        assert slots(self.store.forecast()) == minutes(rows)
        for subject in subjects:
            of_it = [row for row in rows if row["subject"] == subject]
            assert slots(self.store.forecast(subject)) == minutes(of_it)
            assert [one.sequence for one in self.store.pending(subject)] == [row["published_sequence"] for row in of_it]

    def open_again(self) -> None:
        self.store.close()
        assert _core.verify(str(self.folder))["problems"] == []
        self.store = delaymq.open(self.folder, clock=self.clock)


def slots(forecast: delaymq.Forecast) -> dict[datetime, tuple[int, int]]:
    assert forecast.hidden_rows == 0
    return {slot.start: (slot.messages, slot.bytes) for slot in forecast.slots}


def minutes(rows: list[oracle.Row]) -> dict[datetime, tuple[int, int]]:
    found: dict[datetime, tuple[int, int]] = {}
    for row in rows:
        minute = row["due"].replace(second=0, microsecond=0)
        messages, size = found.get(minute, (0, 0))
        found[minute] = (messages + 1, size + len(row["body"]))
    return found


def receipt_of(moved: Moved) -> Receipt:
    assert moved.receipt is not None
    return moved.receipt


@pytest.fixture
def found(tmp_path: Path) -> Iterator[FoundStore]:
    opened = FoundStore(tmp_path / "store")
    yield opened
    opened.store.close()


def test_messages_of_a_found_store_are_moved_cancelled_keyed_repeated_listed_counted_and_forecast(
    found: FoundStore,
) -> None:
    store = found.store
    found.check()
    subject = max(store.pending_counts().items(), key=lambda one: one[1])[0]
    first, second, third, *_ = [one.receipt for one in store.pending(subject)]
    bodies = {row["sequence"]: row["body"] for row in found.scanned()}
    # What the other build wrote: one is moved, one is moved twice, one is cancelled.
    moved = receipt_of(store.move(first, delay=10 * DAY))
    again = receipt_of(store.move(receipt_of(store.move(second, delay=11 * DAY)), delay=12 * DAY))
    assert store.cancel(third) is Outcome.DONE
    assert store.move(first, delay=20 * DAY) == Moved(Outcome.NOT_FOUND, None)
    found.check()
    keyed = store.publish(subject, b"keyed", delay=2 * DAY, key="found-17")
    with pytest.raises(KeyTaken):
        store.publish(subject, b"", delay=DAY, key="found-17")
    replaced = store.publish(subject, b"instead", delay=3 * DAY, key="found-17", if_exists="replace")
    store.publish_many([Publish(subject, b"another", delay=HOUR, key=f"found-{number}") for number in range(10)])
    assert store.cancel_key(subject, "found-3") is Outcome.DONE
    assert store.move_key(subject, "found-4", delay=5 * DAY).outcome is Outcome.DONE
    series = store.recur("found.series", b"again", name="found", cron="30 9 * * *", zone="Europe/Berlin")
    found.check()
    for _ in range(2):
        store.checkpoint()
        found.check()
        found.open_again()
        store = found.store
        found.check()
    fates = store.look_up_many([moved, again, third, keyed, replaced])
    assert [one.fate for one in fates] == [Fate.PENDING, Fate.PENDING, Fate.CANCELLED, Fate.CANCELLED, Fate.PENDING]
    assert [one for one in store.recurring() if one.name == "found"] == [series]
    found.clock.advance(13 * DAY)
    came = {}
    with store.subscribe(subject, group="found") as messages:
        for batch in messages.batches(100, wait=0):
            if not batch:
                break
            came.update({message.due: message.body for message in batch})
            messages.ack(batch)
    assert came[moved.due] == bodies[first.sequence]
    assert came[again.due] == bodies[second.sequence]
    assert came[replaced.due] == b"instead"
    found.check()
    found.open_again()
    found.check()
