"""Ranges of what is pending, of stores that always have several runs, each of several stretches, and a tail."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import delaymq
from crafting import SEGMENT_BYTES, runs_of
from delaymq.testing import Clock
from format_reader.runs import BLOCK_ROWS, GROUP_BLOCKS, SCHEDULE
from tables import oracle
from tables.replaying import Replay

SOON = 600
FENCED = BLOCK_ROWS * GROUP_BLOCKS
SUBJECTS = ("a", "b")
SECOND = timedelta(seconds=1)

# How many rows a run has, over how many seconds they are due, and every which one is cancelled and moved.
Turn = tuple[int, int, int, int]
turns = st.tuples(
    st.integers(FENCED + 1, 4 * FENCED), st.sampled_from((1, 7, 3_000)), st.integers(3, 90), st.integers(3, 90)
)


def tell(folder: Path, runs: list[Turn], tail: Turn) -> None:
    """Publishes each turn, ends and moves some of this and of earlier ones, and makes a run of all but the last."""
    with delaymq.open(folder, clock=Clock(), durability="os", segment_bytes=16 * SEGMENT_BYTES) as store:
        receipts: list[delaymq.Receipt] = []
        for place, (rows, span, cancelled, moved) in enumerate([*runs, tail]):
            for subject in SUBJECTS:
                delays = [SOON + row * 31 % span for row in range(rows // 2 + 1)]
                receipts += store.publish_many(subject, [b"%d" % row for row in range(len(delays))], delays)
            if place < len(runs):
                store.checkpoint()
            for receipt in receipts[place::cancelled]:
                store.cancel(receipt)
            for receipt in receipts[place + 1 :: moved]:
                store.move(receipt, delay=SOON + receipt.sequence % 4_000)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(turns, min_size=2, max_size=3),
    turns,
    st.sampled_from((1, 9_000, 40_000, 1 << 40)),
    st.tuples(st.integers(0, 5_000), st.integers(0, 2_000)),
)
def test_each_row_is_in_one_range(runs: list[Turn], tail: Turn, split_bytes: int, due: tuple[int, int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "store"
        tell(folder, runs, tail)
        assert len(runs_of(folder, SCHEDULE)) >= 2
        replay = Replay(folder)
        expected = sorted((entry.due_ms, one, entry.message) for one, entry in replay.pending.items())
        with delaymq.snapshot(folder) as snapshot:
            columns = ("due", "sequence", "published_sequence", "subject")
            ranges = snapshot.plan("pending", split_bytes=split_bytes)
            assert len(ranges) > 4 or split_bytes > 1
            parts = [oracle.read(snapshot.read(one, columns=columns)) for one in ranges]
            rows = [row for part in parts for row in part]
            assert [(row["due"], row["sequence"], row["published_sequence"]) for row in rows] == [
                (oracle.moment(due_ms), one, message) for due_ms, one, message in expected
            ]
            assert all(len(part) <= one.rows_max for part, one in zip(parts, ranges, strict=True))
            assert rows == oracle.read(snapshot.to_arrow_batches("pending", columns=columns))
            due_from = snapshot.trusted + due[0] * SECOND
            due_before = due_from + due[1] * SECOND
            pruned = snapshot.plan("pending", split_bytes=split_bytes, due_from=due_from, due_before=due_before)
            found = [row for one in pruned for row in oracle.read(snapshot.read(one, columns=columns))]
            assert found == [row for row in rows if due_from <= row["due"] < due_before]
            before_all = snapshot.trusted + (SOON - 1) * SECOND
            assert snapshot.plan("pending", split_bytes=split_bytes, due_before=before_all) == ()
