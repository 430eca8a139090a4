"""A file system of a few megabytes that runs full under a store, and is freed again."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from full_disks import REFUSED_WITHIN_S, cannot

MEGABYTES = 40


def on_a_small_disk(mounted: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a mount namespace of its own, where `mounted` is a small file system."""
    mount = f"mount -t tmpfs -o size={MEGABYTES}m none {mounted}"
    command = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"', sys.executable, "-c"]
    return subprocess.run(
        [*command, textwrap.dedent(code), str(mounted), str(REFUSED_WITHIN_S)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        tried = on_a_small_disk(folder, "")
    except FileNotFoundError:
        cannot("no unshare here")
    if tried.returncode:
        cannot(f"no small disk here: {tried.stderr.strip()}")
    return folder


def test_a_full_disk_refuses_publishes_and_nothing_else(mounted: Path) -> None:
    ended = on_a_small_disk(
        mounted,
        """
        import errno, pathlib, statistics, sys, time, delaymq
        disk = pathlib.Path(sys.argv[1])
        store = delaymq.open(disk / "store", segment_bytes=1 << 20)
        messages = store.subscribe("a", group="g", in_flight_max=1000)
        filler = disk / "filler"
        filler.write_bytes(bytes(20 << 20))
        due, later, body, found, took = 0, 0, b"x" * 1000, [], []
        for size in (100, 1):  # what is too much in one piece may still fit in smaller ones
            while True:
                started = time.monotonic()
                try:
                    store.publish_many("a", [body] * size)
                    due += size
                    started = time.monotonic()
                    store.publish_many("a", [body] * size, 3600)
                    later += size
                except delaymq.DiskFull as error:
                    assert error.errno == errno.ENOSPC and isinstance(error, OSError)
                    found.append(time.monotonic() - started)
                    break
                assert due < 100_000
        for _ in range(9):
            started = time.monotonic()
            try:
                store.publish("a", body, delay=3600)
                raise SystemExit("published on a full disk")
            except delaymq.DiskFull:
                took.append(time.monotonic() - started)
        # As a rule, and at best where the disk is found to be full: any one call may meet a busy machine.
        assert statistics.median(took) < float(sys.argv[2]), took
        assert min(found) < float(sys.argv[2]), found
        assert store.status().disk_full
        received = 0
        for batch in messages.batches(500, wait=2):
            if not batch:
                break
            received += len(batch)
            messages.ack(batch)
            messages.flush(10)
        assert received == due, (received, due)
        filler.unlink()
        until = time.monotonic() + 20
        while True:
            try:
                store.publish("a", b"again")
                break
            except delaymq.DiskFull:
                assert time.monotonic() < until, "publishes did not resume"
                time.sleep(0.05)
        assert messages.get(10).body == b"again"
        pending = store.status().pending
        store.close()
        with delaymq.open(disk / "store") as store:
            assert store.status().pending == pending == later
        print("kept", due, later)
        """,
    )
    assert ended.stdout.startswith("kept "), ended.stdout + ended.stderr
