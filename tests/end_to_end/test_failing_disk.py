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
        cannot(lines[0])
    assert lines == ["poisoned"] * 9 + ["True"], ended.stdout + ended.stderr
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        assert store.status().pending == 1
        assert set(drain(messages, 0.5)) <= {b"good", b"lost"}
        assert store.status().epoch == 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has the numbers of x86-64")
def test_coroutines_that_wait_when_a_sync_fails_are_told_each(tmp_path: Path) -> None:
    code = """
        import asyncio, sys, delaymq

        async def told(waiting):
            try:
                return "answered", await waiting
            except delaymq.Poisoned as error:
                assert "sync of log/" in error.reason, error.reason
                return "poisoned"

        async def main():
            store = await delaymq.open_async(sys.argv[1])
            messages = await store.subscribe("a", group="g")
            await store.publish("a", b"good")
            held = await messages.get(5)
            waits = [asyncio.create_task(told(messages.get())) for _ in range(100)]
            waits.append(asyncio.create_task(told(anext(messages.batches(10)))))
            await asyncio.sleep(0.05)
            refuse_syncs()
            publishes = [asyncio.create_task(told(store.publish("b", b"%d" % number))) for number in range(50)]
            for one in [*publishes, *waits]:
                print(await asyncio.wait_for(one, 20))
            for settle in (held.nack, held.ack):
                try:
                    settle()
                    print("settled")
                except delaymq.Poisoned:
                    print("poisoned")
            for call in (messages.get(), messages.get(0), messages.flush(5), store.publish("a", b""),
                         store.checkpoint(), messages.close(), store.close()):
                print(await asyncio.wait_for(told(call), 20))
            print((await store.status()).poisoned is not None)

        asyncio.run(main())
    """
    folder = tmp_path / "store"
    whole = textwrap.dedent(REFUSE_SYNCS) + textwrap.dedent(code)
    command = [sys.executable, "-c", whole, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    lines = ended.stdout.splitlines()
    if lines and lines[0].startswith("no filter"):
        pytest.skip(lines[0])
    assert lines == ["poisoned"] * (50 + 101 + 2 + 7) + ["True"], ended.stdout + ended.stderr
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        assert drain(messages, 0.5) == [b"good"]
