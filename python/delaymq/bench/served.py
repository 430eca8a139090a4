"""A store behind `delaymq serve` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from delaymq.bench.row import Figures, Measurement
from delaymq.store import Store

PREFIX = "DELAYMQ_"  # prefix of environment variables that configure the command line
GIVEN_BODIES = 40
GIVEN_BODY_BYTES = 1 << 20
GIVEN_DELAY_S = 86_400
SETTLE_S_MAX = 6.0
SETTLE_PAUSE_S = 1.0
STOP_S_MAX = 60.0
PREPARED = "delaymq_prepared_segments_total "


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        port: Its port on this machine.
        pid: Its process.
        ready_s: Seconds from the start of the process until it reported its address.
    """

    port: int
    pid: int
    ready_s: float


@contextlib.contextmanager
def served(folder: Path, durability: str, *, settled: bool = False) -> Iterator[Served]:
    """Serves the store in a folder until the end of the block.

    Args:
        folder: The folder of the store, created if it does not exist.
        durability: `"disk"` or `"os"`.
        settled: True publishes 40 MiB first and waits until the store has prepared its segments, as a store in use has.

    Raises:
        RuntimeError: It did not start, or did not end normally.
    """
    if settled:
        grow(folder)
    options = {"server.port": 0, "http.port": 0, "store.durability": durability}
    settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "delaymq", "serve", "--store", str(folder), "--json", *settings]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    _allow_many_descriptors()
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            ready_s = time.perf_counter() - started
            if not line:
                raise RuntimeError("the server did not start")
            where = json.loads(line)
            if settled:
                _settle(where["http_address"])
            yield Served(int(where["address"].rpartition(":")[2]), process.pid, ready_s)
            process.terminate()
            if process.wait(STOP_S_MAX):
                raise RuntimeError(f"the server ended with {process.returncode}")
        finally:
            process.kill()


def grow(folder: Path) -> None:
    """Gives a store 40 MiB, due in a day, in an opening of its own.

    The segments of a new store are small, and what is prepared for a publish that waits is not filled with zeros.
    """
    with Store.open(folder, durability="os") as store:
        for _ in range(GIVEN_BODIES):
            store.publish("before", bytes(GIVEN_BODY_BYTES), delay=GIVEN_DELAY_S)


def on_server(
    measure: Callable[[Served, Path], Figures], durability: str = "disk", *, settled: bool = False
) -> Measurement:
    """Measures in a folder whose store is served meanwhile."""

    def measured(folder: Path) -> Figures:
        with served(folder / "store", durability, settled=settled) as server:
            return measure(server, folder)

    return measured


def _allow_many_descriptors() -> None:
    """Raises the limit of open files for this process and its children to the maximum."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _settle(http_address: str) -> None:
    """Waits until the store has prepared its segments."""
    until, before = time.monotonic() + SETTLE_S_MAX, 0.0
    while time.monotonic() < until:
        time.sleep(SETTLE_PAUSE_S)
        prepared = _prepared(http_address)
        if prepared and prepared == before:
            return
        before = prepared


def _prepared(http_address: str) -> float:
    with urllib.request.urlopen(f"http://{http_address}/metrics") as answer:
        text: str = answer.read().decode()
    return next((float(line.removeprefix(PREPARED)) for line in text.splitlines() if line.startswith(PREPARED)), 0.0)
