"""A sync that fails: the system refuses `fdatasync` to a child, as a broken disk would."""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import delaymq
from crafting import drain
from full_disks import cannot

# A filter of system calls that answers EIO to fsync and fdatasync, for every thread of the process.
REFUSE_SYNCS = """
    import ctypes, errno, struct
    def refuse_syncs():
        filters = [(0x20, 0, 0, 0), (0x15, 1, 0, 74), (0x15, 0, 1, 75),
                   (0x06, 0, 0, 0x00050000 | errno.EIO), (0x06, 0, 0, 0x7fff0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in filters))
        program = ctypes.create_string_buffer(struct.pack("<H6xQ", len(filters), ctypes.addressof(code)))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.syscall(317, 1, 1, program) != 0:
            print("no filter", ctypes.get_errno(), flush=True)
            raise SystemExit(0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has the numbers of x86-64")
def test_a_failed_sync_ends_all_answers_until_it_is_opened_again(tmp_path: Path) -> None:
    code = """
        import sys, delaymq
        store = delaymq.open(sys.argv[1])
        messages = store.subscribe("a", group="g")
        receipt = store.publish("a", b"good", delay=0.2)
        late = store.publish("a", b"late", delay=3600)
        held = messages.get(5)
        refuse_syncs()
        calls = [lambda: store.publish("a", b"lost"), lambda: store.publish("a", b"refused"),
                 lambda: store.publish_many("a", [b"refused"]), lambda: store.cancel(late),
                 lambda: (held.ack(), messages.flush(5)), lambda: messages.get(1), store.checkpoint,
                 lambda: store.subscribe("a", group="other"), store.close]
        for call in calls:
            try:
                print("answered", call())
            except delaymq.Poisoned as error:
                assert "sync of log/" in error.reason, error.reason
                assert "must be opened again" in str(error), str(error)
                print("poisoned")
        print(store.status().poisoned is not None)
    """
    folder = tmp_path / "store"
    whole = textwrap.dedent(REFUSE_SYNCS) + textwrap.dedent(code)
    command = [sys.executable, "-c", whole, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    lines = ended.stdout.splitlines()
    if lines and lines[0].startswith("no filter"):
        cannot(lines[0])
    assert lines == ["poisoned"] * 9 + ["True"], ended.stdout + ended.stderr
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        assert store.status().pending == 1
        assert set(drain(messages, 0.5)) <= {b"good", b"lost"}
        assert store.status().epoch == 2
