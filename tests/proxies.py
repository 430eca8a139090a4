"""What stands between a client and its server in tests: a relay that can cut, and a server that plays one by hand.

Frames are read and written here from docs/protocol.md alone.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["HELLO", "NOT_PRIMARY", "Relay", "answer", "frame", "hello_answer", "not_primary_body", "played"]

HELLO, PING, PUBLISH, CANCEL, SUBSCRIBE, CREDIT, DELIVER, ACKNOWLEDGE, GIVE_BACK = range(200, 209)
MOVE, PUBLISH_ON_TERMS, CANCEL_KEY, MOVE_KEY = range(212, 216)
FLUSH, UNSUBSCRIBE, STATUS, GROUPS, START_GROUP = 210, 211, 220, 221, 223
RESET_GROUP, REMOVE_GROUP, REDRIVE, EXPIRE = 224, 225, 227, 228
CANCEL_KEYS, MOVE_KEYS = 231, 232
HEAD = struct.Struct(">ihIhhiih")
MAGIC = 0xDEC10ADE
PATIENCE_S = 20
ANSWER = 1
NOT_PRIMARY = 1033


def frame(code: int, body: bytes, *, opaque: int = 0, flags: int = 0, of: int = 0) -> bytes:
    return HEAD.pack(20 + len(body), 18, MAGIC, code, 1, opaque, flags, of) + body


def answer(command: int, opaque: int, body: bytes = b"", code: int = 0) -> bytes:
    return frame(code, body, opaque=opaque, flags=ANSWER, of=command)


def error_body(words: str) -> bytes:
    return struct.pack(">I", len(words)) + words.encode() + b"\0"


def not_primary_body(words: str, address: str, epoch: int) -> bytes:
    text = address.encode()
    details = struct.pack(">BBBI", 2, 13, 0, len(text)) + text + struct.pack(">BBQ", 14, 1, epoch)
    return error_body(words)[:-1] + details


def hello_answer(opaque: int) -> bytes:
    limits = struct.pack(">IIIIQQ", 8 << 20, 10_000, 4 << 20, 65_536, 1_800_000_000_000, 10**12)
    return answer(HELLO, opaque, struct.pack(">hh", 1, 4) + b"test" + bytes(range(16)) + limits)


def frames(connection: socket.socket) -> Iterator[tuple[int, int, int, bytes]]:
    """Code, opaque, command that it answers and whole bytes of each frame, until the other side ends."""
    waiting = b""
    with contextlib.suppress(OSError):
        while data := connection.recv(65_536):
            waiting += data
            while len(waiting) >= HEAD.size and len(waiting) >= 4 + HEAD.unpack_from(waiting)[0]:
                total, _, _, code, _, opaque, flags, of = HEAD.unpack_from(waiting)
                whole, waiting = waiting[: 4 + total], waiting[4 + total :]
                yield code, opaque, of if flags & ANSWER else 0, whole


class Relay:
    """Forwards between clients and a server, and keeps the commands of what it forwarded."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("delaymq://").split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"delaymq://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lose_answer_of: int | None = None
        self._lose_request: int | None = None
        self._swallow: int | None = None
        self._meanwhile: Callable[[], object] = lambda: None
        self.asked: list[tuple[int, bytes]] = []
        self.connections = 0
        self.lost = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer_of(self, command: int, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The next answer to this command never comes: the connection ends instead. The server has done it.

        Before the connection ends `meanwhile` is called.
        """
        self.lost.clear()
        self._meanwhile = meanwhile
        self._lose_answer_of = command

    def swallow(self, command: int) -> None:
        """Requests of this command never arrive, and nobody is told."""
        self._swallow = command

    def refuse(self) -> None:
        """Nobody connects any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def lose_request(self, command: int) -> None:
        """The next request of this command never arrives: the connection ends instead."""
        self.lost.clear()
        self._lose_request = command

    def cut(self) -> None:
        """Ends all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def bodies(self, command: int) -> list[bytes]:
        return [whole[HEAD.size :] for code, whole in list(self.asked) if code == command]

    def close(self) -> None:
        self.refuse()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                try:
                    server = socket.create_connection(self._server, PATIENCE_S)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                with self._lock:
                    self._pairs.append((client, server))
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._forward_back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        for code, _, _, whole in frames(client):
            if code == self._lose_request:
                self._lose_request = None
                break
            self.asked.append((code, whole))
            if code == self._swallow:
                continue
            with contextlib.suppress(OSError):
                server.sendall(whole)
        self._end(client, server)

    def _forward_back(self, server: socket.socket, client: socket.socket) -> None:
        for _, _, of, whole in frames(server):
            if of and of == self._lose_answer_of:
                self._lose_answer_of = None
                self._meanwhile()
                break
            with contextlib.suppress(OSError):
                client.sendall(whole)
        self._end(client, server)

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.lost.set()


@contextmanager
def played(play: Callable[[socket.socket, int], object]) -> Iterator[str]:
    """The URL of a server that hands each connection, and which it is, to `play` on a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            play(connection, number)

    def accept() -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection, number), daemon=True).start()
                number += 1

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"delaymq://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # A thread that waits in accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
