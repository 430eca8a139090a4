"""`delaymq demo --server`: what it ends, and that it finds a promise that was broken."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from commanding import arguments_of, environment, refused
from crafting import wait_until
from delaymq.demo import Settings, run, served_conductor
from delaymq.demo.processes import Server

QUICK = Settings(messages=10_000, seconds=2, kills=1, seed=5, served=True)
COPIED = 20


class Doubling(Server):
    """A server that somebody publishes to who is not known to the ledger."""

    def __init__(self, folder: str, port: int = 0) -> None:
        super().__init__(folder, port)
        if port == 0:
            threading.Thread(target=self.double).start()

    def double(self) -> None:
        plan = QUICK.orders("").plan()
        with delaymq.connect(self.url) as client:
            for number in range(COPIED):
                client.publish(plan.subject(number), plan.body(number))


@pytest.mark.slow
def test_a_message_that_comes_twice_without_a_reason_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_conductor, "Server", Doubling)
    printed: list[str] = []
    assert run(QUICK, printed.append) == 1
    assert printed[-1] == "promises broken"
    broken = [line for line in printed if line.startswith("BROKEN: ")]
    assert any("duplicates that no kill explains" in line for line in broken), printed


class Stopping(Server):
    """A server that somebody ends in order, in the middle of it all."""

    def __init__(self, folder: str, port: int = 0) -> None:
        super().__init__(folder, port)
        threading.Thread(target=self.stop_once_used, daemon=True).start()

    def stop_once_used(self) -> None:
        """Ends it once a client has published, however late that is on a busy machine."""
        with contextlib.suppress(delaymq.StoreError), delaymq.connect(self.url) as client:
            while not client.status().pending:
                time.sleep(0.05)
        self._process.terminate()


@pytest.mark.slow
def test_a_server_that_ends_by_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_conductor, "Server", Stopping)
    printed: list[str] = []
    assert run(QUICK, printed.append) == 1
    # Which of them is seen first is a matter of milliseconds.
    ways = ("BROKEN: the server ended by itself", "BROKEN: a connection was lost although nobody killed the server")
    assert any(line.startswith(ways) for line in printed), printed
    assert printed[-1] == "promises broken"


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    whole = arguments_of("demo", "--server", "--store", str(tmp_path / "store"))
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()) as process:
        yield process
        process.kill()


def children(process: subprocess.Popen[bytes]) -> set[Path]:
    """The processes that it has started, where they are told of."""
    told = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return {Path("/proc") / pid for pid in told.split()}


@pytest.mark.usefixtures("uncounted_processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_whatever_ends_it_everything_that_it_started_ends(
    demo: subprocess.Popen[bytes], number: signal.Signals, code: int
) -> None:
    wait_until(lambda: len(children(demo)) == 4, seconds=20)
    started = children(demo)
    demo.send_signal(number)
    assert demo.wait(20) == code
    wait_until(lambda: not any(path.exists() for path in started), seconds=30)


def test_a_folder_that_is_no_store_is_one_more_line(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    whole = arguments_of("demo", "--server", "--store", str(tmp_path))
    ended = subprocess.run(whole, capture_output=True, text=True, check=False, env=environment())
    assert ended.returncode == 3
    assert "not a delaymq store" in ended.stderr.splitlines()[-1]
    assert "ignored explicit argument" in refused(2, "demo", "--server=delaymq://a")
