"""inspect: a store without its lock, closed, open elsewhere, killed, and damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from commanding import command, on_terminal, refused
from crafting import SEGMENT_BYTES, contents, drain, flip, one, publish_all, runs_of, wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def inspected(folder: Path) -> dict[str, Any]:
    ended = command("inspect", "--store", folder, "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert isinstance(found, dict)
    return found


def filled(folder: Path) -> None:
    """Two subjects, three groups, two checkpoints, and facts behind them."""
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        publish_all(store, "late", [b"x" * 100] * 50, 3600)
        publish_all(store, "now", [b"y" * 100] * 40)
        with store.subscribe("now", group="quick") as messages:
            assert len(drain(messages, 0.2)) == 40
        store.subscribe("now", group="slow", start="latest").close()
        publish_all(store, "now", [b"z" * 100] * 30)
        with store.subscribe("now", group="quick") as messages:
            assert len(drain(messages, 0.2)) == 30
        publish_all(store, "alone", [b"a"] * 5)
        wait_until(lambda: store.status().ready == 35)
        store.checkpoint()
        publish_all(store, "late", [b"x"] * 7, 60)
        store.checkpoint()
        publish_all(store, "late", [b"x"] * 3, 1800)


def subjects(found: delaymq.Inspection) -> dict[str, tuple[int, int]]:
    return {subject.name: (subject.pending, subject.ready) for subject in found.subjects if "%" not in subject.name}


def test_a_closed_store(folder: Path) -> None:
    filled(folder)
    before = contents(folder)
    found = delaymq.inspect(folder)
    assert contents(folder) == before
    assert (found.sealed, found.open_in, found.facts_unconfirmed) == (True, None, 0)
    assert subjects(found) == {"late": (60, 0), "now": (0, 30), "alone": (0, 5)}
    assert (found.pending, found.ready) == (60, 35)
    groups = {(group.subject, group.name): group for group in found.groups if "%" not in group.subject}
    assert groups["now", "quick"].lag == 0
    assert groups["now", "slow"].lag == 30
    assert groups["now", "slow"].cursor == 40
    assert found.next_due is not None
    assert 40 < (found.next_due - found.seen).total_seconds() < 61
    kinds = [file.kind for file in found.files]
    assert kinds.count("checkpoint") == 2
    assert kinds.count("schedule_run") == 2
    assert kinds.count("dispatch_run") == 1
    assert sum(file.bytes for file in found.files) == sum(len(data) for data in before.values())
    run = next(file for file in found.files if file.kind == "dispatch_run")
    assert run.unfinished == 35
    holders = {(holder.kind, holder.subject, holder.group): holder for holder in found.holders}
    assert holders["group", "now", "slow"].messages == 30
    assert holders["no_group", "alone", None].messages == 5
    assert ("group", "now", "quick") not in holders
    segments = [holder.segment for holder in found.holders if holder.segment is not None]
    assert segments == sorted(segments)


def test_what_an_open_counts_is_what_is_inspected(folder: Path) -> None:
    filled(folder)
    found = delaymq.inspect(folder)
    with delaymq.open(folder) as store:
        status = store.status()
        assert (found.pending, found.ready) == (status.pending, status.ready)
        assert status.recovered_facts == found.facts_behind


CHILD = """
import delaymq, sys
store = delaymq.open(sys.argv[1], segment_bytes=65536)
for line in sys.stdin:
    store.publish_many("a", [b"x" * 300] * 20, 3600)
    print("stored", flush=True)
"""


def test_a_store_that_another_process_writes_to(folder: Path) -> None:
    whole = [sys.executable, "-c", CHILD, str(folder)]
    with subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for number in range(1, 40):
            child.stdin.write("go\n")
            child.stdin.flush()
            assert child.stdout.readline() == "stored\n"
            found = delaymq.inspect(folder)
            assert found.open_in == child.pid
            assert found.pending + found.facts_unconfirmed >= 20 * number
            assert found.pending <= 20 * number
        wait_until(lambda: delaymq.inspect(folder).pending == 39 * 20)
        child.send_signal(signal.SIGKILL)
    found = delaymq.inspect(folder)
    assert (found.open_in, found.sealed, found.pending) == (None, False, 39 * 20)
    with delaymq.open(folder) as store:
        assert store.status().pending == 39 * 20


def test_writing_at_full_speed_never_looks_like_damage(folder: Path) -> None:
    code = CHILD.replace("for line in sys.stdin:", "while True:").replace('print("stored", flush=True)', "pass")
    delaymq.open(folder, segment_bytes=SEGMENT_BYTES).close()
    with subprocess.Popen([sys.executable, "-c", code, str(folder)]) as child:
        wait_until(lambda: delaymq.inspect(folder).open_in == child.pid, seconds=60)
        wait_until(lambda: delaymq.inspect(folder).pending > 0, seconds=60)
        last = 0
        for _ in range(30):
            found = delaymq.inspect(folder)
            assert found.pending >= last
            last = found.pending
        child.kill()
    assert last > 0


def test_a_pin_is_there_while_it_reads_and_not_after(folder: Path) -> None:
    filled(folder)
    delaymq.inspect(folder)
    assert list((folder / "pins").iterdir()) == []
    (folder / "pins" / "99999999999999-spark").touch()
    (folder / "pins" / "1-old").touch()
    assert delaymq.inspect(folder).pins == ("99999999999999-spark",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_only_be_read(folder: Path) -> None:
    filled(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert delaymq.inspect(folder).pending == 60
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)


def test_a_damaged_block_is_named_and_the_rest_is_counted(folder: Path) -> None:
    filled(folder)
    path = runs_of(folder, 1)[0]
    flip(path, 4096 + 100)
    ended = command("inspect", "--store", folder)
    assert ended.returncode == 1
    assert f"DAMAGED: runs/{path.name}" in ended.stdout


def test_the_picture_names_who_holds_space(folder: Path) -> None:
    filled(folder)
    shown = command("inspect", "--store", folder).stdout
    assert "60 pending; the next is due in " in shown
    assert "group slow of now has 30 not finished" in shown
    assert "5 ready on alone, which no group consumes" in shown
    assert "checkpoint 2 is kept, and reads from there" in shown
    assert "\x1b" not in shown
    assert inspected(folder)["pending"] == 60


def test_what_cannot_be_inspected_is_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    assert "not a delaymq store" in refused(3, "inspect", "--store", tmp_path)
    assert "No such file" in refused(3, "inspect", "--store", folder)


@pytest.mark.usefixtures("uncounted_processes")
def test_watching_on_a_terminal_draws_again_until_ctrl_c(folder: Path) -> None:
    filled(folder)
    with on_terminal("inspect", "--store", folder, "--watch", "--every", "50ms") as terminal:
        terminal.read_until(b"\x1b[H\x1b[J")
        first = len(terminal.shown)
        while b"\x1b[H\x1b[J" not in terminal.shown[first:]:
            terminal.read(1)
        assert b"\x1b[1m" in terminal.shown
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130


def test_no_colour_where_it_is_not_wanted(folder: Path) -> None:
    filled(folder)
    with on_terminal("inspect", "--store", folder, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.shown
        assert b"60 pending" in terminal.shown
    with on_terminal("inspect", "--store", folder, TERM="dumb") as terminal:
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.shown


def take(messages: delaymq.Subscription, count: int) -> None:
    """Acknowledges so many."""
    for _ in range(count):
        one(messages, 30).ack()
    messages.flush(30)


def held(found: delaymq.Inspection) -> dict[str, delaymq.inspection.HeldSpace]:
    return {space.reason: space for space in found.space}


def segments_of(found: delaymq.Inspection) -> list[delaymq.inspection.InspectedFile]:
    return [file for file in found.files if file.kind == "segment"]


def test_a_dead_group_is_named_and_its_space_goes_with_it(folder: Path) -> None:
    """One group is never consumed, another is up to date: only the first holds what both were sent."""
    began = datetime.now(UTC) - timedelta(seconds=1)
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES, keep_finished=0) as store:
        store.subscribe("now", group="dead").close()
        with store.subscribe("now", group="quick") as messages:
            for _ in range(15):
                publish_all(store, "now", [b"y" * 700] * 40)
            take(messages, 600)
            for _ in range(3):
                store.checkpoint()
            found = delaymq.inspect(folder)
            [dead] = [holder for holder in found.holders if (holder.kind, holder.group) == ("group", "dead")]
            assert (dead.consumers, dead.messages) == (0, 600)
            assert dead.consumer_ended is not None
            assert began <= dead.consumer_ended <= found.seen
            assert 5 * SEGMENT_BYTES < dead.alone < dead.bytes
            assert held(found)["dead_group"].alone == dead.alone
            place = found.holders.index(dead)
            of_dead = [file for file in segments_of(found) if place in file.held_by]
            assert len(of_dead) > 5
            assert of_dead[0].written is not None
            shown = command("inspect", "--store", folder).stdout
            assert "group dead of now has 600 not finished, and nobody consumes for it now, for " in shown
            assert "most room comes back without group dead of now: " in shown
            assert "once older than keep_finished (72h by default), two checkpoints later" in shown
            store.remove_group("now", "dead")
            for _ in range(3):
                store.checkpoint()
            old = {file.path for file in of_dead[:5]}
            wait_until(lambda: not old & {file.path for file in delaymq.inspect(folder).files})
            assert "dead_group" not in held(delaymq.inspect(folder))


def test_nobody_is_called_gone_from_a_store_that_is_closed(folder: Path) -> None:
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        store.subscribe("now", group="g").close()
        for _ in range(10):
            publish_all(store, "now", [b"y" * 700] * 40)
        store.checkpoint()
        assert "and nobody consumes for it now" in command("inspect", "--store", folder).stdout
    [group] = [holder for holder in delaymq.inspect(folder).holders if holder.group == "g"]
    assert group.alone > 0
    shown = command("inspect", "--store", folder).stdout
    assert "nobody can be connected to a closed store" in shown
    assert "nobody consumes" not in shown
    assert "most room" not in shown


def test_what_ends_with_a_group_is_weighed_with_it(folder: Path) -> None:
    """What it gave back, its dead letters and what it has not finished lie in the same files."""
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES, keep_finished=0) as store:
        with store.subscribe("now", group="g") as messages:
            for _ in range(10):
                publish_all(store, "now", [b"y" * 700] * 40)
                one(messages).nack(0)
                one(messages).dead_letter("no such order")
            messages.flush(5)
        store.checkpoint()
        found = delaymq.inspect(folder)
        mine = [holder for holder in found.holders if holder.group == "g"]
        assert {holder.kind for holder in mine} == {"group", "dead_letters"}
        [group] = [holder for holder in mine if (holder.kind, holder.subject) == ("group", "now")]
        others = [holder for holder in mine if holder is not group]
        places = {found.holders.index(holder) for holder in others}
        shared = [file for file in segments_of(found) if places & set(file.held_by)]
        assert shared
        assert all(holder.alone < holder.bytes for holder in others)
        # All but what an open needs, too.
        assert group.alone >= group.bytes - 2 * SEGMENT_BYTES > 2 * SEGMENT_BYTES


def test_what_was_prepared_is_held_by_nobody(folder: Path) -> None:
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        store.publish("now", b"one")
        wait_until(lambda: any(file.kind == "preparing" and file.path.endswith(".segment") for file in look(folder)))
        assert all(not file.held_by for file in look(folder) if file.kind == "preparing")


def look(folder: Path) -> list[delaymq.inspection.InspectedFile]:
    return list(delaymq.inspect(folder).files)


def test_a_group_that_is_consumed_is_not_called_dead(folder: Path) -> None:
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        publish_all(store, "now", [b"y" * 100] * 40)
        with store.subscribe("now", group="busy") as messages:
            assert messages.get(5) is not None
            [busy] = [holder for holder in delaymq.inspect(folder).holders if holder.group == "busy"]
            assert (busy.consumers, busy.consumer_ended) == (1, None)
            assert "dead_group" not in held(delaymq.inspect(folder))


def test_an_archive_that_is_waited_for_is_named_with_what_it_holds(folder: Path) -> None:
    with (
        delaymq.open(folder, segment_bytes=SEGMENT_BYTES, keep_finished=0) as store,
        store.subscribe("noise", group="g") as messages,
    ):
        (folder / "pins" / "archived-00000000000000000001-audit").touch()
        for _ in range(24):
            store.publish_many("noise", [bytes(900)] * 25, 0)
            left = 25
            while left:
                batch = next(iter(messages.batches(left, wait=5)))
                messages.ack(batch)
                left -= len(batch)
        messages.flush()
        for _ in range(3):
            store.publish("noise", b"", delay=3_600)
            store.checkpoint()
    found = delaymq.inspect(folder, keep_finished=0)
    [archive] = [holder for holder in found.holders if holder.kind == "archive"]
    assert (archive.pin, archive.segment) == ("archived-00000000000000000001-audit", 2), "the first one has no facts"
    assert archive.bytes >= archive.alone > SEGMENT_BYTES
    [space] = [held for held in found.space if held.reason == "archive"]
    assert (space.holders, space.alone) == (1, archive.alone)
    told = command("inspect", "--store", folder).stdout
    assert "the archive of archived-00000000000000000001-audit has not got it yet" in told
    assert "comes back without the archive of archived-00000000000000000001-audit" in told
    (folder / "pins" / "archived-00000000000000000001-audit").unlink()
    assert not [holder for holder in delaymq.inspect(folder).holders if holder.kind == "archive"]


def test_a_pin_is_named_and_holds_everything(folder: Path) -> None:
    filled(folder)
    (folder / "pins" / "99999999999999-spark-7").touch()
    (folder / "pins" / "99999999999999999999-later").touch()
    (folder / "pins" / "18446744073709551615-later").touch()
    found = delaymq.inspect(folder)
    pins = {holder.pin: holder for holder in found.holders if holder.kind == "pin"}
    assert set(pins) == {"99999999999999-spark-7", "18446744073709551615-later"}
    pin = pins["99999999999999-spark-7"]
    assert pin.expires is not None
    assert pin.expires.year == 5138
    place = found.holders.index(pin)
    kept = [file for file in found.files if file.kind in ("segment", "schedule_run", "dispatch_run")]
    assert len(kept) > 3
    assert all(place in file.held_by for file in kept)
    assert held(found)["pin"].bytes == sum(file.bytes - file.hole_bytes for file in kept) == pin.bytes
    shown = command("inspect", "--store", folder).stdout
    assert "pin 99999999999999-spark-7 is there, and ends in " in shown


def test_what_waits_is_counted_by_the_file_that_has_it(folder: Path) -> None:
    filled(folder)
    found = delaymq.inspect(folder)
    assert sum(file.pending for file in found.files) == found.pending == 60
    assert sum(holder.messages for holder in found.holders if holder.kind == "pending") == 60
    with_some = [file for file in found.files if file.pending]
    kinds = [{found.holders[place].kind for place in file.held_by} for file in with_some]
    assert all("pending" in kind for kind in kinds)


def test_every_byte_is_held_for_a_reason(folder: Path) -> None:
    """What is held for one reason only, and what is held for several, is all there is."""
    filled(folder)
    found = delaymq.inspect(folder)
    whole = sum(file.bytes for file in found.files)
    alone = sum(space.alone for space in found.space)
    assert 0 < alone <= whole <= sum(space.bytes for space in found.space)
    assert all(space.alone <= space.bytes for space in found.space)


def test_dead_letters_hold_their_log(folder: Path) -> None:
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        publish_all(store, "now", [b"y"] * 2)
        with store.subscribe("now", group="g") as messages:
            for _ in range(2):
                one(messages).dead_letter("no such order")
            messages.flush(5)
        store.checkpoint()
    [dead] = [holder for holder in delaymq.inspect(folder).holders if holder.kind == "dead_letters"]
    assert (dead.subject, dead.group, dead.messages) == ("now", "g", 2)
