"""The parent of the demo in one process: it starts and kills the child, and keeps the account."""

from __future__ import annotations

import os
import signal
import time

from delaymq.demo.account import Account
from delaymq.demo.frames import Frame, Kind
from delaymq.demo.ledger import Ledger
from delaymq.demo.processes import GRACE_S, LISTEN_S, Worker, heard
from delaymq.demo.result import Result
from delaymq.demo.settings import QUIET_S, Settings
from delaymq.store import Store


class Conducting:
    """The parts that the parents of both demos share: the account, and the reports of the workers."""

    def __init__(self, settings: Settings, folder: str) -> None:
        self._settings = settings
        self._folder = folder
        self._orders = settings.orders(folder)
        self._ledger = Ledger(self._orders.plan(), settings.in_flight_max)
        self._account = Account(self._ledger)
        self._workers: list[Worker] = []

    def _result(self, seconds: float) -> Result:
        """The result of a run. The store is opened once more, to count pending and unfinished messages."""
        with Store.open(self._folder) as opened:
            status = opened.status()
        return self._account.result(self._settings, seconds, status.pending + status.ready)

    def _read_frames(self, seconds: float = LISTEN_S) -> bool:
        """Reads the workers' reports of the next few milliseconds. Returns whether there were any."""
        found = False
        for _, frame in heard(self._workers, seconds):
            found = True
            self._account.record(frame)
            self._handle(frame)
        return found

    def _handle(self, frame: Frame) -> None:
        """Handles a report that is on the account already."""
        raise NotImplementedError

    def _over(self) -> bool:
        """True once no message is missing, or no more can be expected."""
        account = self._account
        quiet_s = time.monotonic() - account.heard
        if self._ledger.complete and account.published_all:
            return quiet_s > QUIET_S
        account.failures += self._unexpected_ends()
        return bool(account.failures) or quiet_s > self._settings.seconds + GRACE_S

    def _unexpected_ends(self) -> list[str]:
        """Descriptions of processes that ended by themselves."""
        raise NotImplementedError

    def _end_workers(self) -> None:
        """Ends the workers normally."""
        for worker in self._workers:
            worker.close_input()
        until = time.monotonic() + GRACE_S
        while any(not worker.ended for worker in self._workers) and time.monotonic() < until:
            self._read_frames()
        for worker in self._workers:
            self._account.failures += worker.failures()


class Conductor(Conducting):
    """Runs the demo over one store."""

    def run(self) -> Result:
        """Publishes, kills, waits until no message is missing, and judges."""
        started = time.perf_counter()
        child = self._start()
        try:
            while not self._over():
                self._read_frames()
                if self._kill_is_due() and self._kill(child):
                    child = self._start()
            self._end_workers()
        finally:
            child.close()
        return self._result(time.perf_counter() - started)

    def _start(self) -> Worker:
        """Starts a child with the remaining work."""
        self._orders.resend = self._ledger.take_unanswered()
        self._orders.fresh_from = self._ledger.next_fresh
        self._orders.cancels = self._ledger.cancels_wanted()
        self._account.begin(time.time_ns() // 1000)
        self._workers = [Worker.start("delaymq.demo.child", self._orders)]
        return self._workers[0]

    def _kill_is_due(self) -> bool:
        return not self._account.published_all and self._settings.kill_is_due(self._account)

    def _kill(self, child: Worker) -> bool:
        """Stops the child, and kills it with SIGKILL if enough is in flight by all of its reports.

        On a busy machine the reports are late, and what they named as in flight may be over. A child that is stopped
        has no newer ones.

        Returns:
            Whether the child was killed. Otherwise it goes on.
        """
        child.process.send_signal(signal.SIGSTOP)
        if child.process.poll() is None:
            os.waitid(os.P_PID, child.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        while self._read_frames(0):
            pass
        goes_on = child.ended or not self._kill_is_due()
        if goes_on:
            child.process.send_signal(signal.SIGCONT)
            return False
        child.process.send_signal(signal.SIGKILL)
        child.process.wait()
        while not child.ended:
            self._read_frames()
        child.close()
        self._account.killed()
        return True

    def _unexpected_ends(self) -> list[str]:
        return [f"the child ended by itself with {child.process.wait()}" for child in self._workers if child.ended]

    def _handle(self, frame: Frame) -> None:
        if frame.kind is Kind.OPENED:
            life = self._account.life
            life.started_us = frame.time_us - int(life.open_ms * 1000)  # the beginning of the open
            self._ledger.opened(frame.time_us)
