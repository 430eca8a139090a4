"""A log whose last batch was on its way when the machine stopped: the tables end before it, and nothing is damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import delaymq
from delaymq.testing import Clock
from format_reader.batches import HEADER
from format_reader.segments import read_segment
from format_reader.store import numbered
from tables import oracle
from tables.oracle import Placed
from tables.oracle_deliveries import Deliveries
from tables.replaying import Replay

HEADER_BYTES = HEADER.size
FAR = 3_600

Tear = Callable[[bytes, int, int], bytes]


def kept(count: int) -> Tear:
    """Only so many bytes of the batch came to the disk; below none, all but so many."""
    return lambda data, start, end: (
        data[: (start if count >= 0 else end) + count] + bytes(len(data) - (start if count >= 0 else end) - count)
    )


def zeroed(at: int, count: int) -> Tear:
    """Some of it came, and what is before did not."""
    return lambda data, start, _: data[: start + at] + bytes(count) + data[start + at + count :]


def cut(count: int) -> Tear:
    """The file is shorter."""
    return lambda data, start, _: data[: start + count]


TEARS: dict[str, Tear] = {
    "nothing of it": kept(0),
    "half its header": kept(HEADER_BYTES // 2),
    "its header": kept(HEADER_BYTES),
    "some of its payloads": kept(HEADER_BYTES + 1_000),
    "all but its end": kept(-16),
    "all but its header": zeroed(0, HEADER_BYTES),
    "a hole in the middle": zeroed(HEADER_BYTES + 512, 512),
    "a file that ends in it": cut(HEADER_BYTES + 700),
    "a file that ends in its header": cut(10),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a store in which something is pending in runs and behind them, as they are while it is open."""
    folder = tmp_path_factory.mktemp("torn")
    with delaymq.open(folder / "store", clock=Clock(), segment_bytes=64 * 1024) as store:
        receipts = store.publish_many("s", [b"in a run %d" % place for place in range(300)], FAR)
        store.cancel(receipts[7])
        store.checkpoint()
        for turn in range(6):
            store.publish_many("s", [b"turn %d " % turn + bytes(100) + b"end"] * 20, FAR + turn)
        store.move(receipts[9], delay=2 * FAR)
        store.publish_many("s", [b"last " + bytes(100) + b"end"] * 20, FAR // 2)
        shutil.copytree(folder / "store", folder / "stopped", ignore=shutil.ignore_patterns("lock", "*.pin"))
    return folder / "stopped"


def batches_of(folder: Path) -> tuple[Path, list[Placed]]:
    """The last segment that has batches, and every one in it that can be read, durable or not."""
    found = [
        (path, [Placed(number, batch) for batch in read_segment(path.read_bytes()).batches])
        for number, path in numbered(folder / "log", "segment").items()
    ]
    return next(one for one in reversed(found) if one[1])


def is_whole(one: Placed) -> bool:
    return all(record.payload_is_whole for _, record in one.batch.records)


@pytest.mark.parametrize("name", TEARS)
def test_the_tables_end_before_what_is_torn(stopped: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(stopped, tmp_path / "store")
    path, batches = batches_of(folder)
    torn = next(one for one in reversed(batches) if any(record.kind == "message" for _, record in one.batch.records))
    start, end = torn.batch.offset, torn.batch.end
    assert end - start > HEADER_BYTES + 1_100
    data = path.read_bytes()
    length = len(data)
    # What is behind it came later.
    path.write_bytes(TEARS[name](data[:end] + bytes(length - end), start, end))
    whole = [one.batch.offset for one in batches_of(folder)[1] if is_whole(one)]
    assert whole == [one.batch.offset for one in batches if one.batch.offset < start]

    expected = oracle.messages(folder)
    first_torn = torn.batch.header["base_sequence"]
    assert expected
    assert max(row["sequence"] for row in expected) < first_torn
    pending = sorted((entry.due_ms, sequence) for sequence, entry in Replay(folder).pending.items())
    assert len(pending) > 300
    with delaymq.snapshot(folder) as snapshot:
        assert snapshot.end_sequence <= first_torn
        told = {"ready": Replay(folder).ready, "deliveries": Deliveries(folder).rows()}
        for table in ("message", "pending", "ready", "deliveries"):
            for split_bytes in (1, 2_000, 1 << 40):
                ranges = snapshot.plan(table, split_bytes=split_bytes)
                rows = [row for one in ranges for row in oracle.read(snapshot.read(one))]
                if table == "message":
                    assert rows == expected
                elif table in told:
                    assert rows == told[table]
                else:
                    assert [(row["due"], row["sequence"]) for row in rows] == [
                        (oracle.moment(due), sequence) for due, sequence in pending
                    ]
                assert all(snapshot.verify(one).damages == () for one in ranges)


def test_a_batch_that_is_whole_and_vouched_for_by_nothing_is_not_there_yet(stopped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "store")
    path, batches = batches_of(folder)
    last = next(one for one in reversed(batches) if any(record.kind == "message" for _, record in one.batch.records))
    data = path.read_bytes()
    path.write_bytes(data[: last.batch.end] + bytes(len(data) - last.batch.end))
    expected = oracle.messages(folder)
    with delaymq.snapshot(folder) as snapshot:
        assert snapshot.end_sequence <= last.batch.header["base_sequence"]
        assert oracle.read(snapshot.to_arrow_batches("message")) == expected
    # An open finds it whole, and takes it: it was never refused to who published it.
    with delaymq.open(folder, clock=Clock()):
        pass
    with delaymq.snapshot(folder) as snapshot:
        rows = oracle.read(snapshot.to_arrow_batches("message"))
    assert rows[: len(expected)] == expected
    assert [row["sequence"] for row in rows if row["sequence"] >= last.batch.header["base_sequence"]] == [
        record.sequence for _, record in last.batch.records if record.kind == "message"
    ]
