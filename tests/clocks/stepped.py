"""A served process whose wall clock a test turns while it runs, and what its messages did by the true one."""

from __future__ import annotations

import math
import os
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import delaymq
from serving import Served

MS_A_SECOND = 1_000
NANOSECONDS_A_MILLISECOND = 1_000_000
KEEPS_TIME, KEEPS_NO_TIME = 0, 5
SUBJECT, GROUP = "clocks", "g"
PATIENCE_SECONDS = 30.0


def true_ms() -> float:
    """The time of this process, whose clock nobody turns."""
    return time.time_ns() / NANOSECONDS_A_MILLISECOND


def library(folder: Path) -> Path:
    """The clock, compiled; with what links Rust."""
    compiler = shutil.which("cc")
    assert compiler is not None, "there is no C compiler, which Rust needs to link"
    made = folder / "stepped_clock.so"
    source = Path(__file__).with_name("stepped_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", made, source], check=True)
    return made


class Wall:
    """How far the wall clock of a process stands from the machine's."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset_ns, self._kernel = 0, KEEPS_NO_TIME
        self._write()

    def _write(self) -> None:
        file = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, struct.pack("=qq", self._offset_ns, self._kernel), 0)
        finally:
            os.close(file)

    def stand(self, ahead_ms: float) -> None:
        """Steps to so far ahead of the true time; behind it where this is less than 0. As a step does, it makes the
        kernel report that nobody keeps the time."""
        self._offset_ns, self._kernel = int(ahead_ms * NANOSECONDS_A_MILLISECOND), KEEPS_NO_TIME
        self._write()

    def slew(self, ahead_ns: int) -> None:
        """Goes on a little faster or slower, which is no step."""
        self._offset_ns = ahead_ns
        self._write()

    def is_kept(self) -> None:
        """A time service says that the clock is right."""
        self._kernel = KEEPS_TIME
        self._write()


@dataclass
class Seen:
    """What was published and what came, by the true time."""

    due_ms: dict[bytes, float] = field(default_factory=dict)
    """Not before this: with a delay, so long after the call that published it began."""
    came_ms: dict[bytes, float] = field(default_factory=dict)

    def early(self) -> dict[bytes, float]:
        """What came before its time, and by how many milliseconds."""
        return {
            body: due - self.came_ms[body]
            for body, due in self.due_ms.items()
            if body in self.came_ms and self.came_ms[body] < due
        }

    def missing(self) -> set[bytes]:
        return self.due_ms.keys() - self.came_ms.keys()


class Node:
    """A store that is served under a turned clock, killed and started again."""

    def __init__(self, folder: Path, clock: Path, *arguments: str) -> None:
        self.wall = Wall(folder / "wall")
        self.seen = Seen()
        preloaded = {"LD_PRELOAD": str(clock), "STEPPED_CLOCK": str(self.wall.file)}
        self.served = Served(folder / "store", *arguments, **preloaded)
        self._ended = threading.Event()
        self._consumer = threading.Thread()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._kill()

    def _start(self) -> None:
        self.served.start()
        self._ended.clear()
        self._consumer = threading.Thread(target=self._consume, args=[self.served.url], daemon=True)
        self._consumer.start()

    def _kill(self) -> None:
        self._ended.set()
        self._consumer.join(PATIENCE_SECONDS)
        self.served.kill()

    def start_again(self, around: Sequence[str] = ()) -> None:
        """Kills it with SIGKILL and starts it, under the clock as it stands; `around` is a command that becomes it."""
        self._kill()
        self.served.around = list(around)
        self._start()

    def _consume(self, url: str) -> None:
        while not self._ended.is_set():
            # A server that is stopped for long is given up, and what was acknowledged then is in doubt: it comes again.
            with suppress(delaymq.AmbiguousError), delaymq.connect(url) as client:
                self._consume_from(client)

    def _consume_from(self, client: delaymq.Client) -> None:
        with client.subscribe(SUBJECT, group=GROUP) as messages:
            while not self._ended.is_set():
                message = messages.get(timeout=0.05)
                if message is not None:
                    self.seen.came_ms.setdefault(message.body, true_ms())
                    message.ack()

    def publish(self, name: str, delays_ms: Sequence[int], *, at: bool = False) -> None:
        """Publishes one message for each delay; with `at`, for that long from now by the true time."""
        with delaymq.connect(self.served.url) as client:
            for delay_ms in delays_ms:
                body = f"{name} {delay_ms}".encode()
                now = math.floor(true_ms())  # the store's times are whole milliseconds
                self.seen.due_ms[body] = now + delay_ms
                if at:
                    client.publish(SUBJECT, body, at=datetime.fromtimestamp((now + delay_ms) / MS_A_SECOND, UTC))
                else:
                    client.publish(SUBJECT, body, delay=delay_ms / MS_A_SECOND)

    def held(self) -> bool:
        return self.served.metric("dispatch_held") == 1

    def accepts(self) -> int:
        return int(self.served.metric("clock_accepts_total"))

    def steps(self) -> int:
        return int(self.served.metric("clock_steps_total"))

    def await_all(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.seen.missing():
            assert time.monotonic() < end, f"did not come: {sorted(self.seen.missing())}"
            time.sleep(0.02)

    def await_held(self, *, held: bool) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.held() is not held:
            assert time.monotonic() < end, f"dispatch is {'not ' * held}held"
            time.sleep(0.02)
