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
from refused_syncs import REFUSE_SYNCS


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
        pytest.skip(lines[0])
    assert lines == ["poisoned"] * 9 + ["True"], ended.stdout + ended.stderr
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        assert store.status().pending == 1
        assert set(drain(messages, 0.5)) <= {b"good", b"lost"}
        assert store.status().epoch == 2
