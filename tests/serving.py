"""A served store as a process of its own, and its connections in raw bytes, coded here from docs/protocol.md alone."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from commanding import arguments_of, environment, uncounted
from ports import lone_port

MAGIC = 0xDEC10ADE
HEAD = struct.Struct(">ihIhhiih")
HELLO, PING, PUBLISH, SUBSCRIBE = 200, 201, 202, 204
CREDIT, DELIVER, ACKNOWLEDGE, FLUSH = 205, 206, 207, 210
QMQ_PULL = 11
ONE_WAY = 2
PATIENCE_SECONDS = 20


class Served:
    """`delaymq serve` over a folder, as a process of its own. It can be killed and started again where it was.

    Its ports are its own: nobody is given them by chance while it is not there.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        around: Sequence[str] = (),
        **changed: str,
    ) -> None:
        self.folder = folder
        self.around = list(around)
        """A command that becomes the server."""
        ports = ("--set", f"server.port={lone_port()}", "--set", f"http.port={lone_port()}")
        self._arguments, self._changed = (*ports, *arguments), changed
        self.address = ""
        self.http_address = ""
        self.hold: str | None = None
        """Why dispatch was held when it began to listen."""
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

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"delaymq://{self.address}"

    @property
    def place(self) -> tuple[str, str]:
        """The server as two words of a command line."""
        return "--server", self.url

    def change(self, **changed: str) -> None:
        """Gives it these environment variables from its next start on, besides its own."""
        self._changed = {**self._changed, **changed}

    def start(self) -> None:
        """Starts it and waits until it listens; again on the same ports."""
        whole = arguments_of("serve", "--store", str(self.folder), "--json", *self._arguments)
        whole = self.around + whole
        # What it says stands in a file, so that it never waits for a reader.
        with self.folder.with_suffix(".said").open("a") as said:
            changed = uncounted(environment(**self._changed))
            self._process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=said, text=True, env=changed)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.said()
        where = json.loads(line)
        self.address, self.http_address, self.hold = where["address"], where["http_address"], where["hold"]

    def kill(self) -> None:
        """Kills it, as the kernel would when memory is short."""
        self.process.kill()
        self._ended()

    def stop(self) -> None:
        """Lets it end by itself; twice told, it does not wait for what is under way."""
        for _ in range(2):
            self.process.send_signal(signal.SIGTERM)
        self._ended()
        assert self.process.returncode in (0, 7), self.said()
        assert "panicked" not in self.said(), self.said()

    def _ended(self) -> None:
        assert self.process.stdout is not None
        self.process.wait(PATIENCE_SECONDS)
        if not self.process.stdout.closed:
            self.process.stdout.read()  # a server under another command has ended when nobody can write here any more
            self.process.stdout.close()

    def said(self) -> str:
        """What it wrote to standard error."""
        return self.folder.with_suffix(".said").read_text()

    def errors(self) -> str:
        """The same, once it has ended."""
        self._ended()
        return self.said()

    def connect(self, from_address: str = "") -> Peer:
        host, _, port = self.address.rpartition(":")
        host = "127.0.0.1" if host == "0.0.0.0" else host
        source = (from_address, 0) if from_address else None
        return Peer(socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS, source_address=source))

    def page(self, path: str, **fields: str) -> tuple[int, str]:
        """The status and the text of a page."""
        address = self.http_address.replace("0.0.0.0", "127.0.0.1")
        request = urllib.request.Request(f"http://{address}{path}", headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """The sum of the samples of this name."""
        _, text = self.page("/metrics")
        rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        found = [float(value) for sample, _, value in rows if sample.partition("{")[0] == f"delaymq_{name}"]
        assert found or f"# TYPE delaymq_{name} " in text, name
        return sum(found)

    def memory_bytes(self, kind: str = "RssAnon") -> int:
        """A figure of the process's memory, as the kernel has it; without another, what is its own."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        [line] = [line for line in lines if line.startswith(f"{kind}:")]
        return int(line.split()[1]) * 1024


@contextmanager
def serving(folder: Path, *arguments: str, **changed: str) -> Iterator[Served]:
    """Serves a folder until the end of the block, where it is killed, or until the process is ended by itself."""
    served = Served(folder, *arguments, **changed)
    try:
        served.start()
        yield served
    finally:
        served.kill()


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def frame(command: int, body: bytes = b"", opaque: int = 7, version: int = 1, flags: int = 0) -> bytes:
    return HEAD.pack(len(body) + 20, 18, MAGIC, command, version, opaque, flags, 0) + body


def hello(token: str) -> bytes:
    return struct.pack(">hh", 1, 1) + text("a test") + blob(token.encode())


def qmq_message(subject: str, message_id: str) -> bytes:
    body = text("qmq_createTime") + text("1700000000000") + text("body") + text("hello")
    message = struct.pack(">bqq", 0, 1, 1) + text(subject) + text(message_id) + struct.pack(">i", len(body)) + body
    return struct.pack(">q", zlib.crc32(message)) + message


class Peer:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> tuple[int, int, int, bytes]:
        """The next frame: its code, opaque, flags and body."""
        head = self._exactly(HEAD.size)
        total, size, magic, code, _, opaque, flags, _ = HEAD.unpack(head)
        assert (size, magic) == (18, MAGIC)
        return code, opaque, flags, self._exactly(total - 20)

    def ask(self, command: int, body: bytes = b"", **fields: int) -> tuple[int, bytes]:
        """The code and the body of the answer."""
        self.send(frame(command, body, **fields))
        code, _, _, answer = self.receive()
        return code, answer

    def is_closed(self) -> bool:
        """True once the other side has closed; what it sends before is thrown away."""
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return True

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the other side has closed")
            data += piece
        return bytes(data)


def publish(
    subject: str, bodies: Sequence[bytes], delay_ms: int, *, wants_receipts: bool = False, meta: bytes = b""
) -> bytes:
    """The body of a PUBLISH; all its messages have the same meta."""
    head = struct.pack(">bI", wants_receipts, 1) + text(subject) + struct.pack(">I", len(bodies))
    rows = (
        struct.pack(">HBQIII", 0, 0, delay_ms, len(meta), len(body), zlib.crc32(meta + body)) + meta + body
        for body in bodies
    )
    return head + b"".join(rows)


def qmq_pull(subject: str, group: str, consumer: str, hold_ms: int) -> bytes:
    """The body of a PULL of version 9, for one message and without filters."""
    return text(subject) + text(group) + text(consumer) + struct.pack(">iqqqqbi", 1, -1, -1, -1, hold_ms, 0, 0)


def subscribe(number: int, subject: str, group: str, in_flight_max: int, credit: int) -> bytes:
    """The body of a SUBSCRIBE, from the earliest message on and without filters."""
    names = text(subject) + text(group) + text("")
    return struct.pack(">II", number, 1) + names + struct.pack(">BBIIII", 0, 0, in_flight_max, credit, 0, 0)


class Delivered(NamedTuple):
    """A message of a DELIVER."""

    queue: int
    offset: int
    redelivered: bool
    attempt: int
    due_ms: int
    body: bytes


DELIVERED = struct.Struct(">IQBBIQQQQ13x")  # what is left of the receipt is passed over


def deliveries(body: bytes) -> tuple[int, list[Delivered]]:
    """The server's clock, and the messages of a DELIVER."""
    _, now_ms, count = struct.unpack_from(">IQI", body)
    at, found = 16, []
    for _ in range(count):
        queue, offset, _, redelivered, attempt, _, due_ms, _, _ = DELIVERED.unpack_from(body, at)
        at += DELIVERED.size
        (length,) = struct.unpack_from(">h", body, at)
        at += 2 + length
        meta_bytes, payload_bytes, check = struct.unpack_from(">III", body, at)
        payload = body[at + 12 : at + 12 + payload_bytes]
        at += 12 + payload_bytes
        assert zlib.crc32(payload) == check, "a damaged payload"
        found.append(Delivered(queue, offset, bool(redelivered), attempt, due_ms, payload[meta_bytes:]))
    assert at == len(body)
    return now_ms, found


def acknowledge(number: int, messages: Sequence[Delivered]) -> bytes:
    """The body of an ACKNOWLEDGE."""
    rows = (struct.pack(">IQQ", message.queue, message.offset, 1) for message in messages)
    return struct.pack(">II", number, len(messages)) + b"".join(rows)


def credit(subscription: int, messages: int) -> bytes:
    """The body of a CREDIT."""
    return struct.pack(">II", subscription, messages)


def number(subscription: int) -> bytes:
    """The body of a request that has nothing but a subscription."""
    return struct.pack(">I", subscription)
