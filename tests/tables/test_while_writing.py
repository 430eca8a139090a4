"""Tables of a store that is written to meanwhile: each is what the second reader has of the log up to the snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import delaymq
from serving import Served
from tables import oracle, stores
from tables.replaying import Replay

LOOKS = 4
SPLITS = (2_000, 1 << 40)


@contextmanager
def written_to(folder: Path, by: str) -> Iterator[None]:
    """Another process changes the store until the end of the block: one that has it open, or a client of a server."""
    stores.rich(folder)
    if by == "server":
        with Served(folder, "--set", f"store.segment_bytes={stores.SEGMENT_BYTES}") as served, _changed(served.url):
            yield
    else:
        with _changed(str(folder)):
            yield


@contextmanager
def _changed(place: str) -> Iterator[None]:
    process = stores.changing(place)
    try:
        yield
        assert process.poll() is None, "it wrote to the end"
    finally:
        process.kill()
        process.communicate()


def end_of(folder: Path) -> int:
    with delaymq.snapshot(folder) as snapshot:
        return snapshot.end_sequence


def wait_for_more(folder: Path, end_sequence: int) -> None:
    patience = time.monotonic() + 30
    while end_of(folder) <= end_sequence:
        assert time.monotonic() < patience, "nothing is written"
        time.sleep(0.002)


def pending_by_oracle(folder: Path, end_sequence: int) -> list[oracle.Row]:
    """The table `pending`, without what an entry has of its own beside its due time."""
    replay = Replay(folder, end_sequence)
    messages = {row["sequence"]: row for row in oracle.messages(folder)}
    same = ("message_id", "tags", "attributes", "body", "body_bytes", "payload_check")
    return [
        {name: messages[entry.message][name] for name in same}
        | {
            "sequence": sequence,
            "due": oracle.moment(entry.due_ms),
            "subject": replay.names[entry.subject],
            "published_sequence": entry.message,
        }
        for sequence, entry in sorted(replay.pending.items(), key=lambda one: (one[1].due_ms, one[0]))
    ]


@pytest.mark.parametrize("by", ["process", "server"])
def test_each_snapshot_is_the_log_up_to_its_end(tmp_path: Path, by: str) -> None:
    folder = tmp_path / "store"
    looks = []
    with written_to(folder, by):
        for look in range(LOOKS):
            with delaymq.snapshot(folder) as snapshot:
                end = snapshot.end_sequence
                ranges = {table: snapshot.plan(table, split_bytes=SPLITS[look % 2]) for table in ("message", "pending")}
                # What is read comes from files that have more by now.
                wait_for_more(folder, end)
                rows = {
                    table: [row for one in found for row in oracle.read(snapshot.read(one))]
                    for table, found in ranges.items()
                }
                # And it was written to while these were read.
                wait_for_more(folder, end_of(folder))
                for table, found in rows.items():
                    assert oracle.read(snapshot.to_arrow_batches(table)) == found
            looks.append((end, rows))
    ends = [end for end, _ in looks]
    assert ends == sorted(set(ends))
    assert end_of(folder) > ends[-1]
    for end, rows in looks:
        assert rows["message"] == oracle.messages(folder, end_sequence=end)
        expected = pending_by_oracle(folder, end)
        assert [{name: row[name] for name in of} for row, of in zip(rows["pending"], expected, strict=True)] == expected
        assert len({row["published_sequence"] for row in expected} - {row["sequence"] for row in expected}) > 20
