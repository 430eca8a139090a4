"""`delaymq serve` as a process of its own, on free ports of this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from commanding import arguments_of, environment
from qmq_client.bodies import Consumer, Pull, Pulled, read_registered, register, registration
from qmq_client.connection import PATIENCE_SECONDS, Connection
from qmq_client.frame import NO_MESSAGE, PULL, REGISTER, SUCCESS
from qmq_client.message import Message

HOUR_MS = 3_600_000
# What a consumer of a test waits for a message that will come.
HOLD_MS = 20_000


class Served:
    """A store behind sockets. It can be killed and started again where it was."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self._settings = settings
        self._ports = ("server.port=0", "http.port=0")
        self.address = ""
        self.http_address = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill() if error else self.stop()

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Starts it and waits until it listens; again on the same ports."""
        given = [part for pair in (*self._settings, *self._ports) for part in ("--set", pair)]
        # What it says stands in a file, so that it never waits for a reader.
        with self.folder.with_suffix(".said").open("a") as said:
            self._process = subprocess.Popen(
                arguments_of("serve", "--store", str(self.folder), "--json", *given),
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=environment(),
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.said()
        where = json.loads(line)
        self.address, self.http_address = where["address"], where["http_address"]
        ports = [address.rpartition(":")[2] for address in (self.address, self.http_address)]
        self._ports = (f"server.port={ports[0]}", f"http.port={ports[1]}")

    def said(self) -> str:
        """What it said on standard error."""
        return self.folder.with_suffix(".said").read_text()

    def kill(self) -> None:
        """Kills it, as the kernel would when memory is short."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        """Lets it end by itself; twice told, it does not wait for what is under way."""
        for _ in range(2):
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode in (0, 7), self.said()
        assert "panicked" not in self.said(), self.said()

    def connected(self, version: int = 9) -> Connection:
        """A client of its own."""
        return Connection(self.address, version=version)

    def own_bytes(self) -> int:
        """The memory that is its own, mapped files not counted."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("RssAnon:")]
        return int(line.split()[1]) * 1024

    def now_ms(self) -> int:
        """The time by the clock that decides what is due."""
        with self.connected() as connection:
            values = registration("clock", 1, client_id="clock")
            answer = connection.answer(connection.ask(REGISTER, register(values), opaque=0))
        assert answer.code == SUCCESS
        return read_registered(answer.body).timestamp


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def join(connection: Connection, *consumers: Consumer) -> None:
    """Makes the groups be there: what comes from now on is theirs."""
    for consumer in consumers:
        answer = connection.call(PULL, Pull(consumer).encoded(connection.version))
        assert answer.code == NO_MESSAGE, f"{consumer} begins at the latest message"


def messages_of(subject: str, count: int, *, prefix: str = "m", tags: tuple[str, ...] = ()) -> list[Message]:
    return [Message(subject, f"{prefix}{number}", tags=tags) for number in range(count)]


def ids(pulled: Pulled | None) -> list[str]:
    """The ids of messages, in order."""
    return [] if pulled is None else [message.message_id for message in pulled.messages]


def taken(connection: Connection, consumer: Consumer, count: int) -> dict[str, int]:
    """Pulls and acknowledges until so many have come; their pull offsets by their ids."""
    found: dict[str, int] = {}
    while len(found) < count:
        pulled = connection.pull(Pull(consumer, count=count - len(found), hold_ms=HOLD_MS))
        assert pulled is not None, f"{len(found)} of {count} came: {sorted(found)}"
        assert not found.keys() & pulled.offsets.keys()
        found |= pulled.offsets
        assert connection.acknowledge(consumer, pulled.first, pulled.last) == SUCCESS
    return found
