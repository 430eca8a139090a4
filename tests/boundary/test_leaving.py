"""Ctrl-C, signals, forks, and what was not closed: nothing hangs, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from statistics import median

import pytest

import delaymq
from delaymq import InvalidArgument, Store, WrongType

TURNS = 9
WAITS = {
    "get": "told(messages.get)",
    "iteration": "told(lambda: next(iter(messages)))",
    "batches": "told(lambda: next(messages.batches()))",
    "get behind another thread": "threading.Thread(target=messages.get, daemon=True).start(); told(messages.get)",
    "asyncio": "asyncio.run(waiting())",
    "client": "told(connected.get)",
    "asyncio client": "asyncio.run(connected_waiting(server.url))",
}
PREPARED = """
    import asyncio, signal, sys, threading, time, delaymq, delaymq.testing

    # Who was started in the background may have been told to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    # What is told is the end of the wait itself: what is closed behind it may take longer.
    def told(wait):
        try:
            print("waiting", flush=True)
            wait()
        finally:
            print(time.time(), flush=True)

    async def told_async(wait):
        try:
            print("waiting", flush=True)
            await wait()
        finally:
            print(time.time(), flush=True)

    async def waiting():
        async with delaymq.open_async(sys.argv[1] + ".async") as store, store.subscribe("a", group="g") as messages:
            await told_async(messages.get)

    async def connected_waiting(url):
        async with delaymq.connect_async(url) as client, client.subscribe("a", group="h") as messages:
            await told_async(messages.get)

    with (
        delaymq.open(sys.argv[1]) as store,
        store.subscribe("a", group="g") as messages,
        delaymq.testing.serve(store) as server,
        delaymq.connect(server.url) as client,
        client.subscribe("a", group="h") as connected,
    ):
        for turn in range(TURNS):
            try:
                WAIT
            except KeyboardInterrupt:
                print("interrupted", flush=True)
"""


def python(code: str, folder: Path, *options: str) -> list[str]:
    return [sys.executable, *options, "-c", textwrap.dedent(code), str(folder)]


@pytest.mark.usefixtures("uncounted_processes")
@pytest.mark.parametrize("wait", WAITS, ids=lambda name: name.replace(" ", "_"))
def test_ctrl_c_ends_any_wait_within_a_tenth_of_a_second(folder: Path, wait: str) -> None:
    code = PREPARED.replace("WAIT", WAITS[wait]).replace("TURNS", str(TURNS))
    took = []
    with subprocess.Popen(python(code, folder), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for turn in range(TURNS):
            assert process.stdout.readline() == "waiting\n"
            time.sleep(0.1 + turn * 0.03)
            sent = time.time()
            process.send_signal(signal.SIGINT)
            took.append(float(process.stdout.readline()) - sent)
            assert process.stdout.readline() == "interrupted\n"
        assert process.wait(10) == 0
    assert median(took) < 0.1, took
    assert max(took) < 5, took


@pytest.mark.parametrize("face", ["plain", "asyncio"])
def test_signals_end_loops_in_order_if_they_are_asked_to(folder: Path, face: str) -> None:
    code = {
        "plain": """
            import signal, sys, delaymq
            before = signal.getsignal(signal.SIGTERM)
            with (delaymq.open(sys.argv[1]) as store, store.subscribe("a", group="g") as messages,
                  delaymq.stop_on_signals(messages)):
                print("waiting", flush=True)
                for message in messages:
                    pass
                print("ended")
            assert signal.getsignal(signal.SIGTERM) is before
        """,
        "asyncio": """
            import asyncio, sys, delaymq
            async def main():
                async with delaymq.open_async(sys.argv[1]) as store, store.subscribe("a", group="g") as messages:
                    with delaymq.stop_on_signals(messages):
                        print("waiting", flush=True)
                        async for message in messages:
                            pass
                        print("ended")
            asyncio.run(main())
        """,
    }[face]
    with subprocess.Popen(python(code, folder), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "ended\n"
        assert process.wait(10) == 0


def test_the_second_signal_is_handled_as_ever_and_handlers_come_back() -> None:
    class Counter:
        count = 0

        def stop(self) -> None:
            self.count += 1

    counter, before = Counter(), signal.getsignal(signal.SIGINT)
    with delaymq.stop_on_signals(counter, signals=[signal.SIGINT]):
        assert signal.getsignal(signal.SIGINT) is not before
        signal.raise_signal(signal.SIGINT)
        assert counter.count == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert counter.count == 1


def test_signals_of_no_sense_are_refused() -> None:
    for arguments, options in ((["text"], {}), ([], {"signals": ["SIGINT"]}), ([], {"signals": [True]})):
        with pytest.raises(WrongType), delaymq.stop_on_signals(*arguments, **options):  # type: ignore[arg-type]
            pass
    refused: list[InvalidArgument] = []

    def elsewhere() -> None:
        try:
            with delaymq.stop_on_signals():
                pass
        except InvalidArgument as error:
            refused.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert refused[0].argument == "signals"


FORGOTTEN = {
    "plain": """
        import sys, delaymq
        store = delaymq.open(sys.argv[1])
        messages = store.subscribe("a", group="g")
        store.publish_many("a", [b"1", b"2"])
        store.publish("later", b"3", delay=3600)
        messages.get(5).ack()
    """,
    "asyncio": """
        import asyncio, sys, delaymq
        async def main():
            store = await delaymq.open_async(sys.argv[1])
            messages = await store.subscribe("a", group="g")
            await store.publish_many("a", [b"1", b"2"])
            await store.publish("later", b"3", delay=3600)
            (await messages.get(5)).ack()
        asyncio.run(main())
    """,
    "asyncio while the loop goes on": """
        import asyncio, gc, sys, delaymq
        async def use():
            store = await delaymq.open_async(sys.argv[1])
            messages = await store.subscribe("a", group="g")
            await store.publish_many("a", [b"1", b"2"])
            await store.publish("later", b"3", delay=3600)
            (await messages.get(5)).ack()
        async def main():
            await use()
            gc.collect()
            for _ in range(3):
                await asyncio.sleep(0.01)
            async with delaymq.open_async(sys.argv[1]) as store:
                assert (await store.status()).pending == 1
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("face", FORGOTTEN, ids=lambda name: name.replace(" ", "_"))
def test_a_forgotten_close_is_warned_of_and_loses_nothing(folder: Path, face: str) -> None:
    command = python(FORGOTTEN[face], folder, "-X", "dev")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    assert "ResourceWarning" in ended.stderr
    assert "was not closed" in ended.stderr
    assert "Traceback" not in ended.stderr
    with delaymq.open(folder, durability="os") as store:
        assert store.status().pending == 1
        with store.subscribe("a", group="g") as messages:
            message = messages.get(5)
            assert message is not None
            assert message.body == b"2"
            message.ack()
            assert messages.get(0.2) is None


def test_a_subscription_keeps_its_store_open(folder: Path) -> None:
    messages = delaymq.open(folder, durability="os").subscribe("a", group="g")
    assert messages.get(0) is None
    store = messages._store
    messages.close()
    assert isinstance(store, Store)
    store.close()


def test_an_asyncio_store_in_a_forked_child_touches_nothing(folder: Path) -> None:
    code = """
        import asyncio, os, sys, delaymq
        async def main():
            store = await delaymq.open_async(sys.argv[1])
            messages = await store.subscribe("a", group="g")
            waiting = asyncio.create_task(messages.get())
            await asyncio.sleep(0.05)
            child = os.fork()
            if child == 0:
                async def elsewhere():
                    refused = 0
                    for call in (store.publish("a", b""), store.status(), messages.get(), messages.flush(),
                                 store.checkpoint(), messages.close(), store.close()):
                        try:
                            await call
                        except delaymq.ForkedProcess as error:
                            assert (error.owner, error.caller) == (os.getppid(), os.getpid())
                            refused += 1
                    return refused
                asyncio._set_running_loop(None)
                os._exit(asyncio.run(elsewhere()))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            await store.publish("a", b"1", delay=0.05)
            message = await waiting
            message.ack()
            await messages.close()
            await store.close()
            print(message.body, flush=True)
        asyncio.run(main())
    """
    ended = subprocess.run(python(code, folder), capture_output=True, text=True, timeout=30, check=False)
    assert ended.stdout == "b'1'\n", ended.stderr
