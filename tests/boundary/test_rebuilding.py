"""Runs that are made again from the log: nothing differs in what is whole, and what is lost comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings

import delaymq
from crafting import contents, flip, runs_of, verified
from delaymq import InvalidArgument, Locked, MissingFile, Publish, StoreError, WouldVanish, WrongType
from delaymq.loading import stage
from delaymq.rebuilding import (
    Counts,
    Plan,
    RebuiltPiece,
    adopt,
    discard_pieces,
    plan,
    rebuild,
    rebuild_all,
    refuse_open,
)
from delaymq.testing import Clock
from format_reader.runs import BLOCK_BYTES, SCHEDULE
from tables import stores
from tables.worlds import Step, World, histories

MESSAGES = 200
DELAY_S = 3_600
SEGMENT_BYTES = 64 * 1024
PIECE = 64
SHARED: Any = {"durability": "os", "segment_bytes": SEGMENT_BYTES}


def waiting(path: Path, clock: Clock, count: int = MESSAGES) -> set[bytes]:
    """A store with some messages in one run, and some behind it in the log; the bodies."""
    with delaymq.open(path, clock=clock, **SHARED) as store:
        for number in range(count):
            store.publish("orders", b"body %03d" % number + bytes(number), delay=DELAY_S + number)
        store.checkpoint()
        store.publish("orders", b"behind it", delay=DELAY_S)
    return {b"body %03d" % number + bytes(number) for number in range(count)} | {b"behind it"}


def crowded(path: Path) -> Path:
    """Cancelled, moved, keyed, retried and loaded messages, and runs that were merged."""
    with delaymq.open(path, **SHARED) as store:
        with store.subscribe("retried", group="g") as messages:
            store.publish_many("retried", [b"%d" % number for number in range(20)])
            for message in next(messages.batches(20, wait=5)):
                message.nack(DELAY_S)
            messages.flush(5)
        for turn in range(12):
            rows = [Publish("orders", b"%d-%d" % (turn, at), delay=DELAY_S * (1 + at % 3) + at) for at in range(60)]
            receipts = store.publish_many(rows)
            store.cancel_many(receipts[::7])
            store.move_many(receipts[1::7], delay=2 * DELAY_S)
            for key in ("a", "b"):
                store.publish("keyed", b"%d" % turn, delay=DELAY_S, key=key, if_exists="replace")
            store.move_key("keyed", "a", delay=3 * DELAY_S)
            store.checkpoint()
        due = [datetime.now(UTC) + timedelta(hours=2, seconds=number) for number in range(50)]
        store.load("job", stage(path, pyarrow.table({"subject": ["loaded"] * 50, "due": due, "body": [b"x"] * 50})))
        store.checkpoint()
    return path


def pending(path: Path) -> list[dict[str, Any]]:
    columns = ("sequence", "subject", "due", "body", "message_id", "tags", "attributes")
    with delaymq.snapshot(path) as snapshot:
        rows = pyarrow.table(snapshot.to_arrow_batches("pending", columns=columns)).to_pylist()
    return sorted(rows, key=lambda row: row["sequence"])


def files(path: Path) -> dict[str, bytes]:
    """Every file but the pins of those who looked."""
    return {name: data for name, data in contents(path).items() if not name.startswith("pins/")}


def compared(path: Path) -> tuple[Plan, Counts]:
    planned = plan(path, piece_sequences=PIECE)
    return planned, sum((piece.counts for piece in rebuild_all(path, planned)), Counts())


def adopted(path: Path) -> int:
    """Puts rebuilt runs in their places; how many messages they have."""
    planned = plan(path, piece_sequences=PIECE)
    return adopt(path, planned, rebuild_all(path, planned, stage=True)).messages


def taken(path: Path, clock: Clock) -> Counter[bytes]:
    """All that comes in four hours."""
    with delaymq.open(path, clock=clock, **SHARED) as store, store.subscribe("orders", group="g") as messages:
        clock.advance(4 * DELAY_S)
        found: Counter[bytes] = Counter()
        while batch := next(messages.batches(256, wait=0.5), []):
            found.update(message.body for message in batch)
            messages.ack(batch)
        messages.flush(5)
    return found


def remove(path: Path) -> None:
    [run] = runs_of(path, SCHEDULE)
    run.unlink()


def flip_a_row(path: Path) -> None:
    [run] = runs_of(path, SCHEDULE)
    flip(run, BLOCK_BYTES + 100)


def test_nothing_differs_in_what_is_whole(tmp_path: Path) -> None:
    for path in (crowded(tmp_path / "crowded"), stores.rich(tmp_path / "rich")):
        planned, counts = compared(path)
        assert len(planned.pieces) > 1
        assert counts.pending == counts.same > 100
        assert counts.wrong == 0
    [kept] = plan(tmp_path / "crowded").kept
    assert (kept.sequences, "was loaded" in kept.why) == (50, True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_whatever_was_done_its_rebuilt_runs_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step]
) -> None:
    path = tmp_path_factory.mktemp("world") / "store"
    World(path).tell(history)
    _, counts = compared(path)
    assert counts.wrong == 0
    before = pending(path)
    assert adopted(path) == counts.pending
    assert pending(path) == before
    assert verified(path)["problems"] == []
    delaymq.open(path).close()


@pytest.mark.parametrize("damage", [remove, flip_a_row])
def test_a_run_that_is_gone_or_damaged_comes_back_and_everything_is_handed_over_once(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    damage(path)
    if damage is remove:
        with pytest.raises(MissingFile):
            delaymq.open(path)
    planned = plan(path, piece_sequences=PIECE)
    told = rebuild_all(path, planned)
    counts = sum((piece.counts for piece in told), Counts())
    assert (counts.pending, counts.vanishing) == (MESSAGES, 0)
    assert 0 < counts.unreadable <= MESSAGES
    assert counts.unreadable + counts.same == MESSAGES
    examples = [one for piece in told for one in piece.examples]
    assert {one.kind for one in examples} == {"unreadable"}
    assert all(one.words for one in examples)
    assert adopted(path) == MESSAGES
    assert compared(path)[1].same == MESSAGES
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_what_is_nowhere_else_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    with delaymq.open(path, clock=clock, keep_finished=0, **SHARED) as store:
        last = store.publish_many("orders", [b"%d" % number for number in range(100)], DELAY_S)[-1].sequence
        first = 1
        while first <= last:
            store.cancel_many(store.publish_many("gone", [bytes(2_000)] * 10, DELAY_S))
            store.checkpoint()
            with delaymq.snapshot(path) as snapshot:
                first = snapshot.first_sequence
    _, counts = compared(path)
    assert (counts.pending, counts.kept, counts.wrong) == (100, 100, 0)
    whole = pending(path)
    assert adopted(path) == 100
    assert pending(path) == whole
    for run in runs_of(path, SCHEDULE):
        flip(run, BLOCK_BYTES + 100)
    planned = plan(path, piece_sequences=PIECE)
    told = rebuild_all(path, planned, stage=True)
    gone = sum(piece.counts.vanishing for piece in told)
    assert gone > 0
    discard_pieces(path, told)
    before = files(path)
    told = rebuild_all(path, planned, stage=True)
    with pytest.raises(WouldVanish, match="would vanish: sequence ") as caught:
        adopt(path, planned, told)
    assert caught.value.count == gone
    assert caught.value.sequences
    assert set(caught.value.sequences) <= {row["sequence"] for row in whole}
    assert str(caught.value.sequences[0]) in str(caught.value)
    assert files(path) == before
    for words in (told, [replace(piece, counts=replace(piece.counts, vanishing=0)) for piece in told]):
        # By who does not look at what the pieces say: the core refuses it, too.
        with pytest.raises((WouldVanish, InvalidArgument, MissingFile)):
            adopt(path, planned, words)
        assert files(path) == before


def test_an_open_store_is_compared_and_not_changed(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    waiting(path, clock)

    def kept() -> dict[str, bytes]:
        return {
            name: data for name, data in files(path).items() if name.startswith(("runs/", "checkpoints/", "loads/"))
        }

    with delaymq.open(path, clock=clock, **SHARED) as store:
        planned, counts = compared(path)
        assert counts.same == MESSAGES
        with pytest.raises(Locked):
            refuse_open(path)
        before = kept()
        with pytest.raises(Locked) as caught:
            adopt(path, planned, rebuild_all(path, planned, stage=True))
        assert caught.value.store == str(path)
        assert kept() == before
        assert store.status().pending == MESSAGES + 1
    refuse_open(path)


def test_a_plan_of_an_older_checkpoint_is_refused(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    waiting(path, clock)
    planned = plan(path, piece_sequences=PIECE)
    told = rebuild_all(path, planned, stage=True)
    with delaymq.open(path, clock=clock, **SHARED) as store:
        store.publish("orders", b"later", delay=DELAY_S)
        store.checkpoint()
    with pytest.raises(InvalidArgument, match="plan again") as caught:
        adopt(path, planned, told)
    assert caught.value.argument == "plan"
    assert list((path / "loads").iterdir()) == [], "what was staged is removed"
    assert compared(path)[1].same == MESSAGES + 2


def test_a_second_adoption_changes_nothing_more(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    planned = plan(path, piece_sequences=PIECE)
    told = rebuild_all(path, planned, stage=True)
    first = adopt(path, planned, told)
    assert (first.runs, first.messages) == (len(planned.pieces), MESSAGES)
    before = files(path)
    assert adopt(path, planned, told) == first, "who does not know whether it was done asks again"
    with pytest.raises(InvalidArgument, match="plan again"):
        adopt(path, planned, [replace(piece, staged=None) for piece in told])
    assert files(path) == before
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_what_is_staged_and_never_adopted_is_no_part_of_the_store(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    planned = plan(path, piece_sequences=PIECE)
    told = rebuild_all(path, planned, stage=True)
    for run in (path / "loads").iterdir():
        run.rename(run.with_name("0000000000001" + run.name[13:]))  # who was killed then was it long ago
    delaymq.open(path, clock=clock, **SHARED).close()
    assert list((path / "loads").iterdir()) == []
    with pytest.raises(MissingFile):
        adopt(path, plan(path, piece_sequences=PIECE), told)
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_a_staged_run_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    waiting(path, Clock())
    planned = plan(path, piece_sequences=PIECE)
    before = files(path)
    for where in (100, BLOCK_BYTES + 200, -50):
        told = rebuild_all(path, planned, stage=True)
        run = path / "loads" / _name_of(told[1])
        flip(run, where % run.stat().st_size)
        with pytest.raises(StoreError):
            adopt(path, planned, told)
        assert files(path) == before
    told = rebuild_all(path, planned, stage=True)
    with pytest.raises(InvalidArgument, match="missing"):
        adopt(path, planned, told[:-1])
    discard_pieces(path, told)
    told = rebuild_all(path, planned, stage=True)
    with pytest.raises(InvalidArgument):
        adopt(path, planned, [*told, told[0]])
    assert files(path) == before


def _name_of(piece: RebuiltPiece) -> str:
    assert piece.staged is not None
    return piece.staged.name


def test_a_store_without_a_checkpoint_has_nothing_to_rebuild(tmp_path: Path) -> None:
    path = tmp_path / "store"
    process = delaymq.open(path)
    planned = plan(path)
    assert (planned.checkpoint, planned.pieces, planned.kept) == (None, (), ())
    with pytest.raises(Locked):
        refuse_open(path)
    process.close()
    refuse_open(path)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    waiting(path, Clock())
    planned, none = plan(path), None
    wrong: Any = none
    for sequences in (0, 33, -32, 1 << 21, 1 << 70):
        with pytest.raises(InvalidArgument) as caught:
            plan(path, piece_sequences=sequences)
        assert caught.value.argument == "piece_sequences"
    for found in (True, 32.0, "32"):
        odd: Any = found
        with pytest.raises(WrongType):
            plan(path, piece_sequences=odd)
        with pytest.raises(WrongType):
            rebuild(path, planned, odd)
    for index in (-1, 1):
        with pytest.raises(InvalidArgument, match="index"):
            rebuild(path, planned, index)
    with pytest.raises(WrongType):
        rebuild(path, wrong, 0)
    with pytest.raises(WrongType):
        adopt(path, planned, [wrong])
    with pytest.raises(InvalidArgument, match="plan"):
        rebuild(path, replace(planned, content=b"no plan"), 0)
    with pytest.raises(StoreError):
        plan(tmp_path / "nothing")
    waiting(tmp_path / "other", Clock(), 3)
    with pytest.raises(InvalidArgument, match="another store"):
        rebuild(tmp_path / "other", planned, 0)
