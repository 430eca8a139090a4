"""The parent: starts the child, kills it, starts it again, keeps the account, prints the result."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from delaymq import Store
from delaymq.demo.frames import Deliveries, Frame, FrameReader, Kind
from delaymq.demo.ledger import UNACKNOWLEDGED_MIN, Kill, Ledger
from delaymq.demo.orders import Orders
from delaymq.demo.summary import Result, lines

__all__ = ["Settings", "run"]

KILLS_END_SHARE = 0.95  # of the messages begun; the kills are spread evenly before
KILL_TRIES_MAX = 6  # kills that find too little in flight are repeated, up to so many in all
QUIET_S = 0.5  # how long nothing may be missing before the child is told to stop
GRACE_S = 15.0  # after the last due time, what has not come is lost
READ_BYTES = 1 << 20
PIPE_BYTES = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How the demo runs.

    Attributes:
        messages: How many are published.
        subjects: Over how many subjects.
        seconds: The longest delay.
        kills: How often the child is killed, each time with enough in flight.
        in_flight_max: Messages that each consumer may hold unacknowledged.
        rate_per_s: Messages published a second, at most.
        seed: What the plan is computed from.
        store: The folder, or None for a temporary one.
    """

    messages: int = 200_000
    subjects: int = 50
    seconds: float = 10.0
    kills: int = 2
    in_flight_max: int = 128
    rate_per_s: int = 40_000
    seed: int = 1
    store: str | None = None

    def orders(self, store: str) -> Orders:
        """What every child is told."""
        hold = min(self.in_flight_max // 2, -(-2 * UNACKNOWLEDGED_MIN // self.subjects))
        return Orders(
            store=store,
            messages=self.messages,
            subjects=self.subjects,
            delay_ms_max=int(self.seconds * 1000),
            seed=self.seed,
            in_flight_max=self.in_flight_max,
            hold=hold,
            batch=max(1, self.messages // 2000),
            rate_per_s=self.rate_per_s,
        )


@dataclass
class Life:
    """One life of the child."""

    process: subprocess.Popen[bytes]
    descriptor: int
    started: float
    reader: FrameReader = field(default_factory=FrameReader)
    open_ms: float = 0.0
    facts: int = 0
    first_answer_s: float | None = None  # from its open to its first publish answered
    opened_us: int = 0
    published_all: bool = False
    ended: bool = False


class Conductor:
    """Runs the demo over one store."""

    def __init__(self, settings: Settings, store: str) -> None:
        self._settings = settings
        self._orders = settings.orders(store)
        self._ledger = Ledger(self._orders.plan(), settings.in_flight_max)
        self._failures: list[str] = []
        self._lives: list[Life] = []
        self._kills: list[Kill] = []  # those with enough in flight
        self._published_us = (0, 0)  # first publish begun, last one answered
        self._heard = 0.0

    def run(self) -> Result:
        """Publishes, kills, waits until nothing is missing, and judges."""
        started = time.perf_counter()
        life = self._start()
        while not self._over(life):
            self._listen(life)
            if self._kill_now(life):
                self._kill(life)
                life = self._start()
        self._stop(life)
        left = self._left_in_store()
        return Result(
            settings=self._settings,
            verdict=self._ledger.verdict(),
            kills=self._kills,
            lives=[(life.open_ms, life.facts, life.first_answer_s) for life in self._lives],
            lateness_ms=sorted(self._ledger.lateness_ms),
            lateness_after_restart_ms=sorted(self._ledger.lateness_after_restart_ms),
            published_s=(self._published_us[1] - self._published_us[0]) / 1e6,
            seconds=time.perf_counter() - started,
            left=left,
            failures=self._failures,
        )

    # --- lives -------------------------------------------------------------------------------

    def _start(self) -> Life:
        """Starts a child with what is left to do."""
        self._orders.resend = self._ledger.take_unanswered()
        self._orders.fresh_from = self._ledger.next_fresh
        self._orders.cancels = self._ledger.cancels_wanted()
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        command = [sys.executable, "-m", "delaymq.demo.child", str(theirs)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[theirs])
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(self._orders.to_json().encode() + b"\n")
        process.stdin.flush()
        life = Life(process, ours, time.monotonic())
        self._lives.append(life)
        self._heard = time.monotonic()
        return life

    def _kill_now(self, life: Life) -> bool:
        """True while a kill is still owed and enough is in flight, as far as was heard."""
        done = len(self._kills)
        if done >= self._settings.kills or life.published_all or len(self._lives) > KILL_TRIES_MAX:
            return False
        share = KILLS_END_SHARE * (done + 1) / (self._settings.kills + 1)
        return (
            self._ledger.next_fresh >= share * self._settings.messages
            and self._ledger.publishes_under_way > 0
            and self._ledger.unacknowledged >= UNACKNOWLEDGED_MIN
            and life.first_answer_s is not None
        )

    def _kill(self, life: Life) -> None:
        """Kills with -9, hears the last words, and counts what was in flight."""
        life.process.send_signal(signal.SIGKILL)
        life.process.wait()
        while not life.ended:
            self._listen(life)
        os.close(life.descriptor)
        _close(life.process.stdin)
        kill = self._ledger.killed()
        if kill.counts:
            self._kills.append(kill)

    def _stop(self, life: Life) -> None:
        """Lets the child end in order."""
        _close(life.process.stdin)
        until = time.monotonic() + GRACE_S
        while not life.ended and time.monotonic() < until:
            self._listen(life)
        if not life.ended:
            self._failures.append("the child did not stop when it was told to")
            life.process.kill()
        if life.process.wait() != 0:
            self._failures.append(f"the child ended with {life.process.returncode}")
        os.close(life.descriptor)

    def _over(self, life: Life) -> bool:
        """True once nothing is missing, or nothing more can be expected."""
        if self._ledger.complete and life.published_all:
            return time.monotonic() - self._heard > QUIET_S
        if life.ended:
            self._failures.append(f"the child ended by itself with {life.process.wait()}")
            return True
        if self._failures:
            return True
        return time.monotonic() - self._heard > self._settings.seconds + GRACE_S

    # --- what is heard -----------------------------------------------------------------------

    def _listen(self, life: Life) -> None:
        """Takes in what the child says within the next few milliseconds."""
        ready, _, _ = select.select([life.descriptor], [], [], 0.05)
        if not ready:
            return
        chunk = os.read(life.descriptor, READ_BYTES)
        life.ended = not chunk
        for frame in life.reader.feed(chunk):
            self._hear(life, frame)

    def _hear(self, life: Life, frame: Frame) -> None:
        """Takes in one frame: what it says of this life here, what it says of messages below."""
        self._heard = time.monotonic()
        match frame.kind:
            case Kind.OPENED:
                told = frame.json()
                life.open_ms, life.facts, life.opened_us = told["open_ms"], told["facts"], frame.time_us
                self._ledger.opened(frame.time_us)
            case Kind.PUBLISHED_ALL:
                life.published_all = True
            case Kind.FAILED:
                self._failures.append(frame.json()["error"])
            case Kind.ANSWERED if life.first_answer_s is None:
                life.first_answer_s = (frame.time_us - life.opened_us) / 1e6 + life.open_ms / 1000
                self._account(frame)
            case _:
                self._account(frame)

    def _account(self, frame: Frame) -> None:
        ledger = self._ledger
        match frame.kind:
            case Kind.BEGUN:
                self._published_us = (self._published_us[0] or frame.time_us, self._published_us[1])
                ledger.begun(frame.numbers(), frame.time_us)
            case Kind.ANSWERED:
                self._published_us = (self._published_us[0], frame.time_us)
                ledger.answered(frame.numbers())
            case Kind.RECEIPTS:
                ledger.receipts_known(frame.json())
            case Kind.CANCEL_ANSWERED:
                ledger.cancel_answered(frame.json())
            case Kind.DELIVERED:
                ledger.delivered(Deliveries.from_bytes(frame.payload), frame.time_us)
            case Kind.ACKED:
                ledger.acked(frame.numbers())

    def _left_in_store(self) -> int:
        """What the store itself still holds, pending or unfinished, opened once more."""
        with Store.open(self._orders.store) as store:
            status = store.status()
        return status.pending + status.ready


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError):
            stream.close()


def run(settings: Settings, tell: Callable[[str], object]) -> int:
    """Runs the demo, tells its result line by line, and returns the exit code.

    Args:
        settings: How it runs.
        tell: Is given each line.

    Returns:
        0 where every promise was kept, 1 where one was broken.
    """
    with tempfile.TemporaryDirectory(prefix="delaymq-demo-") as temporary:
        folder = settings.store or str(Path(temporary) / "store")
        tell(
            f"{settings.messages:,} messages of 20 B to 4 KiB over {settings.subjects} subjects, due within "
            f"{settings.seconds:g} s, published durably by a process that is killed {settings.kills} times"
        )
        result = Conductor(settings, folder).run()
    for line in lines(result):
        tell(line)
    return 0 if result.kept else 1
