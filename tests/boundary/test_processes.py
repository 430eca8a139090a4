"""Signals, forks, and other processes at the same folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import delaymq
from delaymq import ForkedProcess, Locked, NotAStore, Store


def run_python(code: str, *arguments: str, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def test_a_forked_child_touches_nothing(folder: Path) -> None:
    ended = run_python(
        """
        import os, sys, delaymq
        store = delaymq.open(sys.argv[1])
        messages = store.subscribe("a", group="g")
        receipt = store.publish("a", b"1", delay=3600)
        child = os.fork()
        if child == 0:
            calls = [lambda: store.publish("a", b""), lambda: store.publish_many("a", [b""]), store.checkpoint,
                     lambda: store.cancel(receipt), lambda: store.subscribe("a", group="g"), store.status,
                     lambda: messages.get(0), lambda: messages.flush(1), messages.close, store.close]
            refused = 0
            for call in calls:
                try:
                    call()
                except delaymq.ForkedProcess as error:
                    assert (error.owner, error.caller) == (os.getppid(), os.getpid())
                    refused += 1
            del messages, store
            os._exit(0 if refused == len(calls) else refused + 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, status
        assert store.status().pending == 1
        store.publish("a", b"2", delay=3600)
        store.close()
        with delaymq.open(sys.argv[1]) as store:
            assert store.status().pending == 2
        print("untouched")
        """,
        str(folder),
    )
    assert ended.stdout == "untouched\n", ended.stderr
    assert issubclass(ForkedProcess, delaymq.StoreError)


@pytest.mark.usefixtures("uncounted_processes")
def test_interrupts_are_seen_while_waiting(folder: Path) -> None:
    code = """
        import sys, delaymq
        with delaymq.open(sys.argv[1]) as store, store.subscribe("a", group="g") as messages:
            print("waiting", flush=True)
            messages.get()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert time.monotonic() - started < 5
    assert "KeyboardInterrupt" in errors
    with delaymq.open(folder) as store:
        assert store.status().pending == 0


def test_a_locked_store_is_refused(store: Store, folder: Path) -> None:
    with pytest.raises(Locked) as caught:
        delaymq.open(folder)
    assert caught.value.path is not None
    ended = run_python("import sys, delaymq; delaymq.open(sys.argv[1])", str(folder))
    assert "Locked" in ended.stderr
    store.publish("a", b"", delay=3600)


def test_a_folder_that_is_no_store_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    with pytest.raises(NotAStore) as caught:
        delaymq.open(tmp_path)
    assert caught.value.store == str(tmp_path)
    assert caught.value.found == "letter.txt"
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_store_that_must_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(delaymq.StoreError):
        delaymq.open(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_pythons_permission_error(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        with pytest.raises(PermissionError):
            delaymq.open(tmp_path / "store")
    finally:
        tmp_path.chmod(0o700)


def test_importing_and_leaving_prints_nothing(folder: Path) -> None:
    ended = run_python(
        """
        import sys, delaymq
        store = delaymq.open(sys.argv[1])
        store.publish("a", b"1")
        messages = store.subscribe("a", group="g")
        """,
        str(folder),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
