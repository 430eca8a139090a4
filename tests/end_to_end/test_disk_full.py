"""A file system that is really full, in a small mount of its own."""

from __future__ import annotations

import logging
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from crafting import drain, verified, wait_until
from delaymq import DiskFull, Receipt, Store
from full_disks import REFUSED_WITHIN_S, fill, mounted, must_be_root

MOUNT_MIB = 16
SEGMENT_BYTES = 1 << 20
BODY = bytes(3000)
TRIES = 3  # of what happens once in a store; the best counts, since a busy machine may meet the others


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    must_be_root()  # before there is an image that nobody can mount
    if request.param == "tmpfs":
        what = ["-t", "tmpfs", "-o", f"size={MOUNT_MIB}m", "tmpfs"]
    else:
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(MOUNT_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, timeout=30)
        what = ["-o", "loop", str(image)]
    with mounted(folder, *what):
        yield folder


def refused_at_once(store: Store, times: int = 5) -> None:
    """Refuses each time; within a tenth of a second as a rule, since any one call may meet a busy machine."""
    took = []
    for _ in range(times):
        started = time.monotonic()
        with pytest.raises(DiskFull) as caught:
            store.publish("a", BODY)
        took.append(time.monotonic() - started)
        assert caught.value.errno == 28
    assert statistics.median(took) < REFUSED_WITHIN_S


def publish_until_full(store: Store, delay: float, messages_max: int = 20_000) -> tuple[list[Receipt], float]:
    """What was stored, and how long the refusal took."""
    receipts: list[Receipt] = []
    while True:
        started = time.monotonic()
        try:
            receipts.append(store.publish("a", b"%d " % len(receipts) + BODY, delay=delay))
        except DiskFull:
            return receipts, time.monotonic() - started
        assert len(receipts) < messages_max


def test_publishes_are_refused_and_all_else_goes_on(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "delaymq")
    folder = disk / "store"
    with (
        delaymq.open(folder, durability="os", segment_bytes=SEGMENT_BYTES) as store,
        store.subscribe("a", group="g") as messages,
    ):
        early = [store.publish("a", b"early %d" % number) for number in range(100)]
        later = store.publish_many("b", [b"to cancel"] * 10, 3600)
        ballast = fill(disk)
        receipts, _ = publish_until_full(store, 1)
        assert store.status().disk_full
        assert store.status().poisoned is None
        refused_at_once(store, times=20)
        # Deliveries, acknowledgements and cancels go on in the room kept for them.
        assert store.cancel(later[0]) is delaymq.Outcome.DONE
        bodies = drain(messages, 2)
        assert len(bodies) == len(early) + len(receipts)
        assert bodies[:100] == [b"early %d" % number for number in range(100)]
        assert sorted(int(body.split()[0]) for body in bodies[100:]) == list(range(len(receipts)))
        refused_at_once(store)
        # They resume by themselves once there is room.
        ballast.unlink()
        wait_until(lambda: not store.status().disk_full, 5)
        store.publish("a", b"after")
        assert drain(messages, 0.5) == [b"after"]
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert "disk_full" in actions
    assert "room_again" in actions
    assert "poisoned" not in actions
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        assert store.status().pending == 9
        assert drain(messages, 0.3) == []
    assert verified(folder)["problems"] == []


def test_the_publish_that_finds_the_disk_full_is_refused_at_once(disk: Path) -> None:
    took = []
    with delaymq.open(disk / "store", durability="os", segment_bytes=SEGMENT_BYTES) as store:
        for _ in range(TRIES):
            ballast = fill(disk)
            _, seconds = publish_until_full(store, 3600)
            took.append(seconds)
            ballast.unlink()
            wait_until(lambda: not store.status().disk_full, 5)
    assert min(took) < REFUSED_WITHIN_S, took


def test_nothing_answered_is_lost_over_a_close_and_an_open_while_full(disk: Path) -> None:
    folder = disk / "store"
    store = delaymq.open(folder, durability="disk", segment_bytes=SEGMENT_BYTES)
    receipts, _ = publish_until_full(store, 3600)
    refused_at_once(store)
    store.close()
    ballast = fill(disk)
    # There is no room for a new segment: it opens or says so, and loses nothing either way.
    try:
        with delaymq.open(folder) as again:
            assert again.status().pending == len(receipts)
    except DiskFull as error:
        assert error.errno == 28  # noqa: PT017 - the other way is as good
    ballast.unlink()
    with delaymq.open(folder) as again:
        assert again.status().pending == len(receipts)
    assert verified(folder)["problems"] == []


def test_a_disk_that_is_full_while_a_checkpoint_is_written(disk: Path) -> None:
    folder = disk / "store"
    with delaymq.open(folder, durability="os", segment_bytes=SEGMENT_BYTES) as store:
        store.publish_many("a", [b"x" * 20] * 5_000, 3600)
        wait_until(lambda: store.status().pending == 5_000)
        time.sleep(0.3)  # so that the segments ahead are prepared
        ballast = fill(disk)
        with pytest.raises(delaymq.StorageError) as caught:
            store.checkpoint()
        assert isinstance(caught.value, DiskFull)
        assert caught.value.path is not None
        assert store.status().poisoned is None
        ballast.unlink()
        store.checkpoint()
    with delaymq.open(folder) as store:
        assert store.status().pending == 5_000
        assert store.status().recovered_facts < 100
