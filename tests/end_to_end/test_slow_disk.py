"""Ctrl-C while a call waits for a disk that does not answer."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from statistics import median

import pytest

# A filter of system calls that holds fsync and fdatasync of every thread until somebody answers, which nobody does.
HOLD_SYNCS = """
    import ctypes, fcntl, os, select, struct
    def hold_syncs():
        # Gives the descriptor that tells of what is held.
        filters = [(0x20, 0, 0, 0), (0x15, 1, 0, 74), (0x15, 0, 1, 75),
                   (0x06, 0, 0, 0x7fc00000), (0x06, 0, 0, 0x7fff0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in filters))
        program = ctypes.create_string_buffer(struct.pack("<H6xQ", len(filters), ctypes.addressof(code)))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) != 0 or (held := libc.syscall(317, 1, 1 | 8 | 16, program)) < 0:
            print("no filter", ctypes.get_errno(), flush=True)
            os._exit(0)
        return held
    def await_sync_of_the_log(held):
        polled = select.poll()
        polled.register(held, select.POLLIN)
        while polled.poll(20_000):
            call = bytearray(80)  # what is held; after 32 bytes come the arguments, of which the first is the file
            fcntl.ioctl(held, 0xc0502100, call)
            # Segments that are prepared have other names, and nobody waits for those.
            if os.readlink("/proc/self/fd/%d" % struct.unpack_from("<Q", call, 32)).endswith(".segment"):
                return
        raise TimeoutError("nothing is synced")
"""
TURNS = 5
WAITS = {
    "publish": "store.publish('a', b'x')",
    "publish_many": "store.publish_many('a', [b'x'] * 100)",
    "flush": "held.ack(); messages.flush()",
    "checkpoint": "store.checkpoint()",
}
PREPARED = """
    import os, sys, threading, time, delaymq
    store = delaymq.open(sys.argv[1], durability="disk")
    # A segment that is taken into the log meanwhile would hold the log, and its own sync is never answered.
    log, names = os.path.join(sys.argv[1], "log"), []
    while len(names) < 4 or not all(name.endswith(".segment") for name in names):
        time.sleep(0.01)
        names = os.listdir(log)
    messages = store.subscribe("a", group="g")
    store.publish("a", b"first")
    held = messages.get(5)
    syncs = hold_syncs()
    # It leads, or the store's own thread does, which may have had something to commit just then.
    threading.Thread(target=store.publish, args=("a", b"leads"), daemon=True).start()
    await_sync_of_the_log(syncs)
    print("waiting", flush=True)
    try:
        WAIT
        print("did not wait", flush=True)
    except KeyboardInterrupt:
        print(time.time(), flush=True)
    os._exit(0)
"""


@pytest.mark.usefixtures("uncounted_processes")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has the numbers of x86-64")
@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait_for_the_disk_within_a_tenth_of_a_second(wait: str, tmp_path: Path) -> None:
    """While the sync of another thread is under way, which all of these wait behind.

    What is not here: whoever commits alone syncs on his own thread, and the system breaks off no sync for a signal, so
    that Ctrl-C is as late as that one sync. `cancel`, `subscribe` and what operators do wait in one piece. `open` and
    `close` go on to their end on purpose: half an end would leave the lock and the consumers of the store to nobody.
    """
    code = textwrap.dedent(HOLD_SYNCS) + textwrap.dedent(PREPARED).replace("WAIT", WAITS[wait])
    took = [interrupted(code, tmp_path / f"store.{turn}", 0.3 + turn * 0.07) for turn in range(TURNS)]
    assert median(took) < 0.1, took


def interrupted(code: str, folder: Path, after: float) -> float:
    """How long Ctrl-C took, where the disk never answers."""
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        if said.startswith("no filter"):
            pytest.skip(said)
        time.sleep(after)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        try:
            said, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail("the wait went on")
        assert process.returncode == 0
        return float(said) - sent
