"""A group of copies, each `delaymq serve` in a process of its own, which tests kill, pause and hand over."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

import delaymq
from commanding import arguments_of, command, environment
from etcd.__main__ import why_not
from ports import lone_port
from power_cuts.equipment import MUST_RUN
from serving import Served

PATIENCE_SECONDS = 120
"""Ends what hangs. Nothing is measured: a wait ends as soon as what it is for is there."""
TOKEN = "dmqt_of_the_administrator"
SEGMENT_BYTES = 4 << 20
HERE = "127.0.0.1"


def await_true(is_so: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def set_words(*pairs: str) -> tuple[str, ...]:
    """Settings as words of a command line."""
    return tuple(word for pair in pairs for word in ("--set", pair))


def token_hash(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def node_settings(place: str, others: Sequence[str]) -> tuple[str, ...]:
    """The settings of a node, but for its register."""
    return set_words(
        f"cluster.listen={place}",
        f"cluster.peers={','.join(others)}",
        f"store.segment_bytes={SEGMENT_BYTES}",
        f"server.admin_token_hash={token_hash(TOKEN)}",
    )


class Group:
    """The nodes of a group, the first of which has the first copy."""

    def __init__(self, folder: Path, register: tuple[str, ...], hosts: Sequence[str] = (HERE,) * 3) -> None:
        self.folder = folder
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN)
        self.register = register
        places = [f"{host}:{lone_port()}" for host in hosts]
        self.settings = [
            (*self._settings(place, [other for other in places if other != place]), *register) for place in places
        ]
        self.nodes = [Served(folder / f"node{number}", *chosen) for number, chosen in enumerate(self.settings, 1)]

    def _settings(self, place: str, others: list[str]) -> tuple[str, ...]:
        return node_settings(place, others)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        for node in self.nodes:
            if self.is_running(node):
                node.kill()

    @staticmethod
    def is_running(node: Served) -> bool:
        try:
            return node.process.poll() is None
        except AssertionError:
            return False

    def create(self, *, min_copies: int = 2) -> dict[str, Any]:
        place = ("--store", str(self.nodes[0].folder), *self.settings[0], "--set", f"cluster.min_copies={min_copies}")
        # A process of its own, which is on the network of this thread.
        ended = subprocess.run(
            arguments_of("cluster", "create", *place, "--json"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            env=environment(),
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        return dict(json.loads(ended.stdout))

    def start(self) -> None:
        """Makes the group and starts its nodes, and waits until all of them have everything."""
        self.create()
        for node in self.nodes:
            node.start()
        self.await_whole()

    @property
    def url(self) -> str:
        return "delaymq://" + ",".join(node.address for node in self.nodes)

    def status(self, node: Served) -> dict[str, Any]:
        found: list[tuple[int, str]] = []

        def is_answered() -> bool:
            # A node whose role changes closes the connections that it has.
            with contextlib.suppress(OSError):
                found.append(node.page("/cluster"))
            return bool(found)

        await_true(is_answered, "the node shows its status")
        code, text = found[0]
        assert code == 200, text
        return dict(json.loads(text))

    def primary(self) -> Served | None:
        """The node that takes publishes, if there is one."""
        return next(self._primaries(), None)

    def _primaries(self) -> Iterator[Served]:
        """The nodes that would take publishes. One that was replaced may not know it yet."""
        return (node for node in self.nodes if self.is_running(node) and self.status(node)["accepts_publishes"])

    def await_primary(self, *, other_than: Served | None = None) -> Served:
        found: list[Served] = []

        def is_there() -> bool:
            found.extend(node for node in self._primaries() if node is not other_than)
            return bool(found)

        await_true(is_there, f"no primary: {self.said()}")
        return found[0]

    def await_whole(self) -> None:
        """Waits until there is one primary, and each node is in its set."""

        def is_whole() -> bool:
            primaries = list(self._primaries())
            registers = [self.status(node)["register"] for node in primaries]
            return [len(register["sync"]) for register in registers if register is not None] == [len(self.nodes)]

        await_true(is_whole, f"not all nodes are in the set: {self.said()}")

    def said(self) -> str:
        return "\n".join(f"{node.folder.name}: {node.said()[-2000:]}" for node in self.nodes if self.is_running(node))

    def ask(self, node: Served, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a verb of the administrator on a node."""
        where = ("--http", f"http://{node.http_address}", "--token-file", self.token_file)
        return command("cluster", *words, *where)


@contextmanager
def paused(*nodes: Served) -> Iterator[None]:
    """Stops the processes of nodes, all of their threads, until the end of the block."""

    def is_stopped() -> bool:
        states = (
            task.read_text().rpartition(") ")[2][0]
            for node in nodes
            for task in Path(f"/proc/{node.process.pid}/task").glob("*/stat")
        )
        return all(state == "T" for state in states)

    for node in nodes:
        node.process.send_signal(signal.SIGSTOP)
    try:
        await_true(is_stopped, "the threads stop")
        yield
    finally:
        for node in nodes:
            node.process.send_signal(signal.SIGCONT)


class Traffic:
    """A client that publishes one message after the other, another that consumes, and what was answered and seen."""

    def __init__(self, url: str, token: str | None = None, rest_seconds: float = 0) -> None:
        self._stopping = threading.Event()
        self._rest_seconds = rest_seconds
        self.answered: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.unmarked: Counter[str] = Counter()
        self.early: list[str] = []
        self._producer = delaymq.connect(url, token=token, timeout=PATIENCE_SECONDS)
        self._consumer = delaymq.connect(url, token=token, timeout=PATIENCE_SECONDS)
        self._messages = self._consumer.subscribe("order", group="billing")
        self._threads = [threading.Thread(target=self._publish), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        number = 0
        while not self._stopping.is_set():
            name = f"m{number}"
            delay = (number % 5) / 10
            try:
                # The same id again, until it is answered: there is no second copy.
                self._producer.publish("order", name.encode(), delay=delay, message_id=name, deduplicate=True)
            except delaymq.StoreError:
                time.sleep(0.02)
                continue
            self.answered.add(name)
            number += 1
            self._stopping.wait(self._rest_seconds)

    def _consume(self) -> None:
        while (message := self._messages.get()) is not None:
            name = message.body.decode()
            if time.time() < message.due.timestamp():
                self.early.append(name)
            self.seen[name] += 1
            self.unmarked[name] += not message.redelivered
            message.ack()

    def await_more(self, count: int = 50) -> None:
        """Waits until so many more were answered, and so many more seen."""
        answered, seen = len(self.answered) + count, len(self.seen) + count
        await_true(lambda: len(self.answered) >= answered and len(self.seen) >= seen, f"it goes on: {self}")

    def end(self) -> None:
        """Stops publishing, waits until all that was answered is seen, and judges."""
        self._stopping.set()
        self._threads[0].join(PATIENCE_SECONDS)
        await_true(lambda: self.answered <= set(self.seen), f"answered and not delivered: {self}")
        self.close()
        assert self.early == []
        assert max(self.unmarked.values()) == 1, "what comes again is marked"

    def close(self) -> None:
        self._stopping.set()
        self._messages.stop()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self._producer.close()
        # What was acknowledged just before a kill may come again, and the end says so.
        with contextlib.suppress(delaymq.AmbiguousError):
            self._consumer.close()

    @property
    def repeated(self) -> int:
        """How many deliveries came again."""
        return sum(self.seen.values()) - len(self.seen)

    def __str__(self) -> str:
        lost = sorted(self.answered - set(self.seen))
        return f"{len(self.answered)} answered, {len(self.seen)} seen, not seen {lost[:20]}"


@contextmanager
def traffic(url: str, token: str | None = None, rest_seconds: float = 0) -> Iterator[Traffic]:
    flowing = Traffic(url, token, rest_seconds)
    try:
        yield flowing
    finally:
        flowing.close()


def in_file(folder: Path) -> tuple[str, ...]:
    """The settings of a register in a file."""
    return set_words(f"cluster.register=file:{folder / 'register'}")


def must_have_etcd() -> None:
    """Skips where etcd is missing; `.ci/run` installs it, or fails, as `make etcd` does."""
    if shutil.which("etcd") is None:
        if not os.environ.get(MUST_RUN):
            pytest.skip("etcd is not installed: see `make etcd`")
        assert why_not() == ""


@contextmanager
def in_etcd(folder: Path, address: str = HERE) -> Iterator[tuple[str, ...]]:
    """The settings of a register in an etcd of one member, which ends with the block."""
    must_have_etcd()
    client, peer = (f"http://{address}:{lone_port()}" for _ in range(2))
    words = ["etcd", "--name", "one", "--data-dir", str(folder / "etcd"), "--logger", "zap"]
    words += ["--listen-client-urls", client, "--advertise-client-urls", client]
    words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}"]
    with (folder / "etcd.said").open("wb") as said:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        host, _, port = client.removeprefix("http://").rpartition(":")
        await_true(lambda: _listens(host, int(port)), "etcd does not listen")
        yield set_words("cluster.register=etcd:delaymq/test", f"cluster.etcd={client}")
    finally:
        process.kill()
        process.wait()


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
