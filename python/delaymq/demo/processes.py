"""The processes that the parent starts and ends: workers, and the server."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Self

from delaymq.demo.frames import Frame, FrameReader
from delaymq.demo.settings import Orders

GRACE_S = 15.0  # how long a process may take to react
LISTEN_S = 0.05  # how long a parent waits for reports before it looks at what else there is to do
READ_BYTES = 1 << 20
PIPE_BYTES = 1 << 20
START_TRIES = 5
START_PAUSE_S = 0.2


@dataclass
class Worker:
    """A worker process, and the pipe of its reports.

    Attributes:
        process: The process, in a session of its own: Ctrl-C reaches only the parent, which ends the process.
        descriptor: The pipe.
        ended: True once all its reports were read.
    """

    process: subprocess.Popen[bytes]
    descriptor: int
    ended: bool = False
    _reader: FrameReader = field(default_factory=FrameReader)

    @classmethod
    def start(cls, module: str, orders: Orders, pipe_bytes: int = PIPE_BYTES) -> Self:
        """Starts a process with its orders. It waits while so many bytes of its reports are not read."""
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, pipe_bytes)
        command = [sys.executable, "-m", module, str(theirs)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[theirs], start_new_session=True)
        os.close(theirs)
        worker = cls(process, ours)
        worker.tell(orders.to_json())
        return worker

    def tell(self, line: str) -> None:
        """Writes a line to its input, if it still runs."""
        assert self.process.stdin is not None
        if self.process.stdin.closed:
            return  # the input is closed already
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def frames(self) -> list[Frame]:
        """Its next reports; waits for one."""
        chunk = os.read(self.descriptor, READ_BYTES)
        self.ended = not chunk
        return list(self._reader.feed(chunk))

    def close_input(self) -> None:
        """Closes its input, which makes it stop."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def failures(self) -> list[str]:
        """Errors of its exit; it is ended if it runs."""
        if self.ended and self.process.wait() == 0:
            return []
        words = f"ended with {self.process.wait()}" if self.ended else "did not stop when it was told to"
        self.close()
        return [f"a process that worked {words}"]

    def close(self) -> None:
        """Ends it if it runs, and closes the pipes."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.close_input()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def heard(workers: list[Worker], seconds: float) -> list[tuple[Worker, Frame]]:
    """Reports of workers; waits so long for the first one."""
    telling = {worker.descriptor: worker for worker in workers if not worker.ended}
    ready, _, _ = select.select(list(telling), [], [], seconds)
    return [(telling[number], frame) for number in ready for frame in telling[number].frames()]


class ServerFailed(Exception):  # noqa: N818 - it says what happened
    """The server could not be started."""


class Server:
    """`delaymq serve` over the demo's folder."""

    def __init__(self, folder: str, port: int = 0) -> None:
        """Starts it and waits until it listens.

        Args:
            folder: The store.
            port: The port, or 0 for any; a port may be in use for a moment, so it is tried again.

        Raises:
            ServerFailed: It does not listen.
        """
        for attempt in range(START_TRIES if port else 1):
            time.sleep(START_PAUSE_S if attempt else 0)
            self.started_us = time.time_ns() // 1000
            self._process = _serving(folder, port)
            line = self._first_line()
            if line:
                self.address: str = json.loads(line)["address"]
                return
            self.close()
        raise ServerFailed(f"the server ended, or did not listen within {GRACE_S:g} s")

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.address.rpartition(":")[2])

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"delaymq://{self.address}"

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def _first_line(self) -> bytes:
        assert self._process.stdout is not None
        descriptor, line, end = self._process.stdout.fileno(), b"", time.monotonic() + GRACE_S
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(descriptor, READ_BYTES) if ready else b""
            if not piece:
                return b""
            line += piece
        return line

    def kill(self) -> None:
        """Ends it with SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self.close()

    def stop(self) -> int:
        """Ends it normally; returns the exit code, which is that of a kill if it takes too long."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        self.close()
        return self._process.returncode

    def close(self) -> None:
        """Ends it if it runs, and closes the pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _serving(folder: str, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "delaymq.demo.served", "--store", folder]
    command += ["--set", f"server.port={port}", "--set", "http.port=0"]
    configured = {name: value for name, value in os.environ.items() if not name.startswith("DELAYMQ_")}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=configured, start_new_session=True
    )
