"""A forked child holds what its parent opened, and may end in any way without touching it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ENDS = {
    "leaves the interpreter": "sys.exit(0)",
    "leaves at once": "os._exit(0)",
    "raises out of the with": "raise SystemExit(0)",
    "drops every name": "del messages, store, message; gc.collect(); os._exit(0)",
    "uses everything first": "use_all(); sys.exit(0)",
    "forks again": "os.fork() and os.wait(); sys.exit(0)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=[name.replace(" ", "-") for name in ENDS])
def test_a_child_that_ends_leaves_every_file_as_it_was(tmp_path: Path, end: str) -> None:
    code = f"""
        import gc, os, pathlib, sys, time, delaymq
        folder = pathlib.Path(sys.argv[1])
        def contents():
            return {{path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}}
        def settled():
            before, equal = None, 0
            while equal < 3:
                try:
                    now = contents()
                except FileNotFoundError:  # a file got its name meanwhile
                    before, equal = None, 0
                else:
                    before, equal = now, equal + 1 if now == before else 1
                time.sleep(0.4)
            return before
        def use_all():
            for call in (lambda: store.publish("a", b"child"), lambda: store.cancel(receipt), store.checkpoint,
                         store.status, lambda: messages.get(0), message.ack, message.nack, lambda: messages.flush(1),
                         messages.stop, messages.close, store.close):
                try:
                    call()
                except delaymq.ForkedProcess as error:
                    assert (error.owner, error.caller) == (os.getppid(), os.getpid())
                else:
                    assert call == messages.stop, call
        store = delaymq.open(folder, segment_bytes=65536)
        messages = store.subscribe("a", group="g")
        receipt = store.publish("a", b"pending", delay=3600)
        store.publish("a", b"held")
        message = messages.get(5)
        before = settled()
        child = os.fork()
        if child == 0:
            {end}
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        time.sleep(0.2)
        assert contents() == before
        assert status == 0, status
        message.ack()
        messages.flush(5)
        store.publish("a", b"parent", delay=3600)
        try:
            delaymq.open(folder)
        except delaymq.Locked:
            print("locked still")
        messages.close()
        store.close()
        with delaymq.open(folder) as store:
            print(store.status().pending, store.status().ready)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "store")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("locked still\n2 0\n", "")
