"""Commands as forks of a process that has imported them.

A short command that is a new process takes more than half of its processor time for its imports, and for those of what
counts its lines; so does one that asks a running Spark, which imports PySpark. A fork has its own process number,
streams, environment and exit code, as a new process has. Tests of how the command starts, of its signals and of its
terminal start new processes.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

LENGTH = struct.Struct("<I")
STREAMS = 3
ALONE = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""Keeps packages from starting a thread when they are imported: a fork would not have it."""
AS_IT_STARTED = ("PYTHON", "LC_", "LANG", *ALONE)
"""Variables that Python, or a package that is imported, reads when it starts."""


def of_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AS_IT_STARTED)}


# --- the side of the tests -------------------------------------------------------------------------------------------


class Template:
    """The process that is forked."""

    def __init__(self, started_with: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._orders, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno()), *modules]
        others = {name: value for name, value in os.environ.items() if not name.startswith(AS_IT_STARTED)}
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={**others, **started_with}
        )
        theirs.close()
        atexit.register(self.end)

    def end(self) -> None:
        self._orders.close()
        self._process.wait(20)

    def run(
        self, arguments: Sequence[str], given: bytes, seconds: float, environment: Mapping[str, str]
    ) -> tuple[int, bytes, bytes]:
        """The exit code of a command, and what it wrote to its two streams."""
        order = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(environment)}
        payload = json.dumps(order).encode()
        status, theirs = os.pipe()
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            os.fdopen(status, "rb", buffering=0) as told,
        ):
            stdin.write(given)
            stdin.seek(0)
            with self._lock:
                fds = [stdin.fileno(), out.fileno(), err.fileno(), theirs]
                socket.send_fds(self._orders, [LENGTH.pack(len(payload))], fds)
                self._orders.sendall(payload)
            os.close(theirs)
            code = ended_with(told.fileno(), seconds, arguments)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()


def ended_with(status: int, seconds: float, arguments: Sequence[str]) -> int:
    """The exit code, once it is there; what takes longer is killed."""
    end, told, is_late = time.monotonic() + seconds, b"", False
    while told.count(b"\n") < 2:
        left = end - time.monotonic()
        if left < 0 and not is_late and b"\n" in told:
            is_late = True
            os.kill(int(told.partition(b"\n")[0]), signal.SIGKILL)
        if select.select([status], [], [], 1 if left < 0 else left)[0]:
            piece = os.read(status, 64)
            assert piece, "the process that is forked has ended"
            told += piece
    if is_late:
        raise subprocess.TimeoutExpired([*arguments], seconds)
    return int(told.split(b"\n")[1])


@cache
def template(started_with: frozenset[tuple[str, str]], modules: tuple[str, ...] = ()) -> Template:
    """The one that started with these variables and imported these modules beside the verbs."""
    return Template(dict(started_with), modules)


# --- the process that is forked --------------------------------------------------------------------------------------


def received(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next order and its streams; None at the end."""
    header, fds, _, _ = socket.recv_fds(orders, LENGTH.size, STREAMS + 1)
    if not header:
        return None
    [left] = LENGTH.unpack(header)
    payload = b""
    while len(payload) < left:
        payload += orders.recv(left - len(payload))
    found: dict[str, Any] = json.loads(payload)
    return found, fds


def watch(status: int) -> bool:
    """Forks a worker, in which this returns. Here it says how the worker ended."""
    worker = os.fork()
    if worker == 0:
        return True
    os.write(status, b"%d\n" % worker)
    _, code = os.waitpid(worker, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(code))
    os._exit(0)


def work(order: dict[str, Any], fds: list[int]) -> NoReturn:
    """Is the command."""
    import coverage  # noqa: PLC0415 - the tests import this module, too

    from delaymq.cli import main  # noqa: PLC0415

    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv[:] = ["delaymq", *order["arguments"]]
    sys.path[0] = order["folder"]
    for number, fd in enumerate(fds[:STREAMS]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    coverage.process_startup(force=True)
    try:
        code: Any = main()
    except SystemExit as ended:  # of the parser
        code = ended.code
    # What Python does at its end, but for giving back all memory, of which the fork would get a copy for that.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Forks for each order, whose fork returns it. Returns None when the tests have ended."""
    while (order := received(orders)) is not None:
        _, fds = order
        if os.fork() == 0 and watch(fds[STREAMS]):
            orders.close()
            return order
        for fd in fds:
            os.close(fd)
        with suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    return None


def end_counting() -> None:
    """Keeps which lines the imports ran. Each fork counts its own."""
    import coverage  # noqa: PLC0415 - so that no fork imports it

    begun = getattr(coverage.process_startup, "coverage", None)
    if begun is not None:
        begun.stop()
        begun.save()
        atexit._clear()


if __name__ == "__main__":
    from delaymq.cli import parser

    parser()  # imports all verbs
    for name in sys.argv[2:]:
        importlib.import_module(name)
    end_counting()
    gc.freeze()
    ordered = serve(socket.socket(fileno=int(sys.argv[1])))
    if ordered is not None:
        work(*ordered)
