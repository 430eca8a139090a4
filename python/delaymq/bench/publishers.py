"""Processes that publish to a port together, from Python; `publisher` is one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

HOST = "127.0.0.1"
SUBJECT = "bench.served"  # the subject that the processes of the benches use
BATCH = 1000
BODY = bytes(256)
READY = "ready\n"
PATIENCE_S = 120.0  # timeout of processes that publish together


@dataclass(frozen=True)
class Orders:
    """The work of one process.

    Attributes:
        call: A name of `publisher.WORK`.
        port: The port to which it connects.
        workers: Its threads, coroutines or clients.
        calls: How often they call, together.
        frame_bytes: The bytes of a request, for a loop that has no client.
        answer_bytes: The bytes of an answer, as above.
        seconds: How long idle clients are watched.
    """

    call: str
    port: int
    workers: int
    calls: int = 0
    frame_bytes: int = 0
    answer_bytes: int = 0
    seconds: float = 0.0


def published(orders: Orders, processes: int) -> float:
    """Seconds from the first call to the last answer of so many processes, all connected before the first call.

    Raises:
        RuntimeError: One of them failed.
        subprocess.TimeoutExpired: They did not end in time.
    """
    found = _together(orders, processes)
    return float(max(one["ended_s"] for one in found) - min(one["began_s"] for one in found))


def watched(orders: Orders) -> dict[str, float]:
    """The figures of clients that are idle in a process of their own; it raises as `published`."""
    [found] = _together(orders, 1)
    return found


def _together(orders: Orders, processes: int) -> list[dict[str, Any]]:
    with ExitStack() as running:
        began = [running.enter_context(_begun(orders)) for _ in range(processes)]
        for process in began:
            if process.stdout is None or process.stdout.readline() != READY:
                raise RuntimeError(f"a process for {orders.call!r} did not start")
        for process in began:
            if process.stdin is not None:
                process.stdin.write("\n")
                process.stdin.flush()
        said = [process.communicate(timeout=PATIENCE_S)[0] for process in began]
        if any(process.returncode for process in began):
            raise RuntimeError(f"a process for {orders.call!r} did not end well")
        return [json.loads(text) for text in said]


@contextmanager
def _begun(orders: Orders) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "delaymq.bench.publisher", json.dumps(asdict(orders))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
