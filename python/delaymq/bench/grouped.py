"""A group of copies on this machine, each behind `delaymq serve` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from delaymq.bench.served import PREFIX

WAIT_S_MAX = 120.0
LOOK_PAUSE_S = 0.02
STOP_S_MAX = 60.0


class Group:
    """The nodes of a group, by their numbers from 0. The register is in a file.

    Attributes:
        url: The addresses of all nodes, for clients.
        folders: The folder of each node.
    """

    def __init__(self, folder: Path, nodes: int, min_copies: int) -> None:
        """Makes the group; no node runs yet.

        Args:
            folder: An empty folder for everything.
            nodes: The number of nodes.
            min_copies: The copies that a publish needs.
        """
        ports = _free_ports(3 * nodes)
        self._clients, self._pages, peers = ports[:nodes], ports[nodes : 2 * nodes], ports[2 * nodes :]
        self.folders = [folder / f"node{number}" for number in range(nodes)]
        self.url = "delaymq://" + ",".join(f"127.0.0.1:{port}" for port in self._clients)
        self._settings: list[list[str]] = []
        for number in range(nodes):
            others = ",".join(f"127.0.0.1:{port}" for port in peers if port != peers[number])
            chosen = {
                "server.port": self._clients[number],
                "http.port": self._pages[number],
                "cluster.listen": f"127.0.0.1:{peers[number]}",
                "cluster.peers": others,
                "cluster.register": f"file:{folder / 'register'}",
                "cluster.min_copies": min_copies,
            }
            words = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
            self._settings.append(["--store", str(self.folders[number]), *words])
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._said = (folder / "said").open("wb")
        subprocess.run(self._command(["cluster", "create"], 0), check=True, stdout=self._said, env=_environment())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        self._said.close()

    def start(self, number: int) -> None:
        """Starts a node."""
        command = self._command(["serve"], number)
        self._running[number] = subprocess.Popen(command, stdout=self._said, stderr=self._said, env=_environment())

    def kill(self, number: int) -> None:
        """Ends a node as `kill -9` does."""
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def status(self, number: int) -> dict[str, Any] | None:
        """The status of the group, as a node has it; None if it does not answer."""
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self._pages[number]}/cluster"
            with urllib.request.urlopen(url, timeout=STOP_S_MAX) as answer:
                return dict(json.loads(answer.read()))
        return None

    def primary(self, copies: int) -> int:
        """Waits for a primary that takes publishes and has so many copies, and returns its number."""
        found: list[int] = []

        def is_there() -> bool:
            found.extend(self._primaries(copies))
            return bool(found)

        await_true(is_there)
        return found[0]

    def has(self, copies: int) -> bool:
        """True if a primary takes publishes and has so many copies."""
        return any(True for _ in self._primaries(copies))

    def _primaries(self, copies: int) -> Iterator[int]:
        for number in self._running:
            status = self.status(number)
            if status and status["accepts_publishes"] and len(status["register"]["sync"]) == copies:
                yield number

    def _command(self, verb: list[str], number: int) -> list[str]:
        return [sys.executable, "-m", "delaymq", *verb, *self._settings[number]]


@contextlib.contextmanager
def group(folder: Path, nodes: int, *, min_copies: int) -> Iterator[Group]:
    """A group whose nodes run and have everything, until the end of the block."""
    folder.mkdir(exist_ok=True)
    with Group(folder, nodes, min_copies) as made:
        for number in range(nodes):
            made.start(number)
        made.primary(nodes)
        yield made


def await_true(is_so: Callable[[], bool]) -> None:
    """Looks until it is so.

    Raises:
        RuntimeError: It takes too long.
    """
    end = time.monotonic() + WAIT_S_MAX
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError("the group does not come to it")
        time.sleep(LOOK_PAUSE_S)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
