"""A child is killed with -9 at a moment of its own choosing; the parent looks at what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import delaymq

PRELUDE = """
    import os, signal, sys, time, delaymq
    def die():
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    folder, durability = sys.argv[1], sys.argv[2]
    store = delaymq.open(folder, durability=durability)
"""


def killed(folder: Path, durability: str, code: str) -> list[str]:
    """Runs the code in a child that must end by its own SIGKILL; the lines that it printed."""
    whole = textwrap.dedent(PRELUDE) + textwrap.dedent(code)
    command = [sys.executable, "-c", whole, str(folder), durability]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout.splitlines()


@pytest.fixture(params=["disk", "os"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_was_answered_is_there_and_cancels_hold(tmp_path: Path, durability: str) -> None:
    lines = killed(
        tmp_path / "store",
        durability,
        """
        receipts = []

        # Each is cancelled soon after it was published, so that a slow disk does not let it become due meanwhile.
        def cancel(receipt):
            assert store.cancel(receipt) is delaymq.Outcome.DONE

        for number in range(50):
            receipts.append(store.publish("a", b"%d" % number, delay=5))
            if number % 10 == 0:
                cancel(receipts[-1])
        receipts += store.publish_many("a", [b"%d" % number for number in range(50, 100)], 5)
        for receipt in receipts[50::10]:
            cancel(receipt)
        print("\\n".join(map(str, receipts)))
        die()
        """,
    )
    assert len(lines) == 100
    with delaymq.open(tmp_path / "store") as store, store.subscribe("a", group="g") as messages:
        assert store.cancel(delaymq.Receipt.parse(lines[10])) is delaymq.Outcome.DONE
        expected = {b"%d" % number for number in range(100) if number % 10}
        outcome = store.cancel(delaymq.Receipt.parse(lines[11]))
        assert outcome in (delaymq.Outcome.DONE, delaymq.Outcome.ALREADY_DISPATCHED)
        if outcome is delaymq.Outcome.DONE:
            expected.remove(b"11")
        found: set[bytes] = set()
        while (message := messages.get(20 if len(found) < len(expected) else 1)) is not None:
            assert message.body not in found
            found.add(message.body)
            message.ack()
    assert found == expected


def test_what_was_unacknowledged_comes_again_marked_and_what_was_acknowledged_does_not(
    tmp_path: Path, durability: str
) -> None:
    lines = killed(
        tmp_path / "store",
        durability,
        """
        store.publish_many("a", [b"%d" % number for number in range(100)])
        messages = store.subscribe("a", group="g")
        batch = []
        while len(batch) < 60:
            batch += next(messages.batches(60 - len(batch), wait=5))
        messages.ack(batch[:20])
        messages.flush()
        print(*[message.body.decode() for message in batch])
        die()
        """,
    )
    handed = [body.encode() for body in lines[0].split()]
    with delaymq.open(tmp_path / "store") as store, store.subscribe("a", group="g") as messages:
        again: list[delaymq.Message] = []
        while (message := messages.get(20 if len(again) < 80 else 0.3)) is not None:
            again.append(message)
    bodies = [message.body for message in again]
    assert sorted(bodies, key=int) == sorted({b"%d" % number for number in range(100)} - set(handed[:20]), key=int)
    marked = {message.body for message in again if message.redelivered}
    assert set(handed[20:]) <= marked
    assert all(message.attempt >= 2 for message in again if message.redelivered)


def test_a_store_survives_being_killed_again_and_again(tmp_path: Path, durability: str) -> None:
    folder = tmp_path / "store"
    for life in range(6):
        lines = killed(
            folder,
            durability,
            f"""
            assert store.status().pending == {life * 30}, store.status()
            store.publish_many("a", [b"x" * 1000] * 30, 3600)
            {"store.checkpoint()" if life % 2 else "pass"}
            print("published")
            die()
            """,
        )
        assert lines == ["published"]
    with delaymq.open(folder) as store:
        assert store.status().pending == 180
        assert store.status().epoch == 7


def test_a_publish_under_way_is_whole_or_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    code = """
        import sys, delaymq
        store = delaymq.open(sys.argv[1])
        store.publish_many("a", [b"x" * 300] * 100, 3600)
        print("stored", flush=True)
        while True:
            store.publish_many("a", [b"x" * 300] * 100, 3600)
    """
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(code), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "stored\n"
            os.sched_yield()
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                process.kill()
        with delaymq.open(folder) as store:
            assert store.status().pending % 100 == 0
            assert store.status().pending > 0


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    killed(tmp_path / "store", "disk", "die()")
    delaymq.open(tmp_path / "store").close()


def test_a_torn_end_is_cut_and_what_was_vouched_for_stays(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    killed(folder, "disk", 'store.publish_many("a", [b"x" * 100] * 10, 3600); time.sleep(0.5); die()')
    newest = sorted((folder / "log").glob("*.segment"))
    with_data = max((path for path in newest if b"x" * 100 in path.read_bytes()), key=lambda path: path.name)
    content = bytearray(with_data.read_bytes())
    end = content.rstrip(b"\0").__len__()
    content[end + 64 : end + 96] = bytes(range(1, 33))  # what a crash may leave after the last batch
    with_data.write_bytes(content)
    with delaymq.open(folder) as store:
        assert store.status().pending == 10


def test_a_damaged_batch_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with delaymq.open(folder) as store:
        for _ in range(5):
            store.publish_many("a", [b"x" * 100] * 10, 3600)
    segment = next(path for path in sorted((folder / "log").glob("*.segment")) if b"x" * 100 in path.read_bytes())
    content = bytearray(segment.read_bytes())
    at = content.index(b"x" * 100) - 30  # in the header of the first record
    content[at] ^= 0x10
    segment.write_bytes(content)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in (folder / "checkpoints").glob("*"):
        path.unlink()
        del before[path]
    with pytest.raises(delaymq.Corrupt) as caught:
        delaymq.open(folder)
    error = caught.value
    assert error.path is not None
    assert segment.name in error.path
    assert error.offset is not None
    assert error.offset <= at
    assert error.expected
    assert error.found
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
