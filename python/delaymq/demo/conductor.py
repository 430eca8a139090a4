"""The parent of the demo in one process: it starts and kills the child, and keeps the account."""

from __future__ import annotations

import signal
import time

from delaymq.demo.account import Account
from delaymq.demo.frames import Frame, Kind
from delaymq.demo.ledger import Ledger
from delaymq.demo.processes import GRACE_S, Worker, heard
from delaymq.demo.result import Result
from delaymq.demo.settings import QUIET_S, Settings
from delaymq.store import Store

__all__ = ["Conductor"]


class Conductor:
    """Runs the demo over one store."""

    def __init__(self, settings: Settings, store: str) -> None:
        self._settings = settings
        self._orders = settings.orders(store)
        self._ledger = Ledger(self._orders.plan(), settings.in_flight_max)
        self._account = Account(self._ledger)
        self._child: Worker

    def run(self) -> Result:
        """Publishes, kills, waits until no message is missing, and judges."""
        started = time.perf_counter()
        self._start()
        try:
            while not self._over():
                self._read_frames()
                if not self._account.published_all and self._settings.kill_is_due(self._account):
                    self._kill()
                    self._start()
            self._stop()
        finally:
            self._child.close()
        return self._account.result(self._settings, time.perf_counter() - started, unfinished_in(self._orders.store))

    def _start(self) -> None:
        """Starts a child with the remaining work."""
        self._orders.resend = self._ledger.take_unanswered()
        self._orders.fresh_from = self._ledger.next_fresh
        self._orders.cancels = self._ledger.cancels_wanted()
        self._account.begin(time.time_ns() // 1000)
        self._child = Worker.start("delaymq.demo.child", self._orders)

    def _kill(self) -> None:
        """Kills the child with SIGKILL, reads its last reports, and counts the messages in flight."""
        self._child.process.send_signal(signal.SIGKILL)
        self._child.process.wait()
        while not self._child.ended:
            self._read_frames()
        self._child.close()
        self._account.killed()

    def _stop(self) -> None:
        """Ends the child normally."""
        self._child.close_input()
        until = time.monotonic() + GRACE_S
        while not self._child.ended and time.monotonic() < until:
            self._read_frames()
        self._account.failures += self._child.failures()

    def _over(self) -> bool:
        """True once no message is missing, or no more can be expected."""
        account = self._account
        quiet_s = time.monotonic() - account.heard
        if self._ledger.complete and account.published_all:
            return quiet_s > QUIET_S
        if self._child.ended:
            account.failures.append(f"the child ended by itself with {self._child.process.wait()}")
        return bool(account.failures) or quiet_s > self._settings.seconds + GRACE_S

    def _read_frames(self) -> None:
        """Reads the child's reports of the next few milliseconds."""
        for _, frame in heard([self._child]):
            self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        self._account.record(frame)
        if frame.kind is Kind.OPENED:
            life = self._account.life
            life.started_us = frame.time_us - int(life.open_ms * 1000)  # the beginning of the open
            self._ledger.opened(frame.time_us)


def unfinished_in(store: str) -> int:
    """The number of pending or unfinished messages in the store, which is opened once more."""
    with Store.open(store) as opened:
        status = opened.status()
    return status.pending + status.ready
