"""The parent of the demo with a server: it kills the server, while workers publish and consume in other processes."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from delaymq.demo.conductor import Conducting
from delaymq.demo.frames import Frame, Kind
from delaymq.demo.processes import GRACE_S, Server, ServerFailed, Worker
from delaymq.demo.result import Result
from delaymq.demo.settings import Settings

CONSUMING = 2  # processes that share the subjects
ALL_PUBLISHED = "all is published"
# On a busy machine the parent reads late. With room for more than some thousand messages, the process that publishes is
# done before the parent knows that a kill is due.
PUBLISHED_PIPE_BYTES = 16 << 10


class ServedConductor(Conducting):
    """Runs the demo over one store behind `delaymq serve`.

    A kill is a barrier: the server is started again only after every worker has reported that its connection is
    lost and its messages are dropped. So later deliveries are of the next server, and it is known whether a
    duplicate is allowed.
    """

    def __init__(self, settings: Settings, folder: str) -> None:
        super().__init__(settings, folder)
        self._server: Server
        self._opened = 0  # workers with a connection to this server
        self._lost = 0  # workers that have reported a lost connection
        self._expects_losses = False

    def run(self) -> Result:
        """Publishes, kills, waits until no message is missing, and judges."""
        began = time.perf_counter()
        with ExitStack() as ending:
            try:
                self._serve(ending)
                self._start_workers(ending)
                while not self._over():
                    self._read_frames()
                    if self._kill_is_due():
                        self._kill()
                        self._serve(ending, self._server.port)
                self._stop()
            except ServerFailed as failure:
                self._account.failures.append(str(failure))
        return self._result(time.perf_counter() - began)

    def _serve(self, ending: ExitStack, port: int = 0) -> None:
        self._opened = 0
        self._server = Server(self._folder, port)
        ending.callback(self._server.close)
        published_all = self._account.published_all
        self._account.begin(self._server.started_us)
        self._account.published_all = published_all

    def _start_workers(self, ending: ExitStack) -> None:
        """Starts one worker that publishes, and some that consume."""
        orders = self._settings.orders(self._server.url)
        consuming = [replace(orders, publishes=False, share=share, shares=CONSUMING) for share in range(CONSUMING)]
        module = "delaymq.demo.remote"
        self._workers += [Worker.start(module, one) for one in consuming]
        self._workers.append(Worker.start(module, replace(orders, shares=0), PUBLISHED_PIPE_BYTES))
        for worker in self._workers:
            ending.callback(worker.close)

    def _kill_is_due(self) -> bool:
        all_reconnected = self._opened == len(self._workers)
        return all_reconnected and not self._account.published_all and self._settings.kill_is_due(self._account)

    def _kill(self) -> None:
        """Kills the server with SIGKILL, and waits until every worker has dropped its messages."""
        self._lost, self._expects_losses = 0, True
        self._server.kill()
        until = time.monotonic() + GRACE_S
        while self._lost < len(self._workers) and not self._account.failures:
            self._read_frames()
            if time.monotonic() > until:
                self._account.failures.append("somebody did not notice that the server was killed")
        self._expects_losses = False
        self._account.killed()

    def _stop(self) -> None:
        """Ends the workers and then the server normally."""
        self._end_workers()
        code = self._server.code
        code = self._server.stop() if code is None else code
        if code != 0:
            self._account.failures.append(f"the server ended with {code}")

    def _unexpected_ends(self) -> list[str]:
        failures = []
        if self._server.code is not None:
            failures.append(f"the server ended by itself with {self._server.code}")
        if any(worker.ended for worker in self._workers):
            failures.append("a process that worked ended by itself")
        return failures

    def _handle(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.OPENED:
                self._opened += 1
                if self._opened == len(self._workers):
                    self._ledger.opened(frame.time_us)
            case Kind.LOST:
                self._lost += 1
                if not self._expects_losses:
                    self._account.failures.append("a connection was lost although nobody killed the server")
            case Kind.PUBLISHED_ALL:
                for worker in self._workers:
                    worker.tell(ALL_PUBLISHED)
