"""One connection over a plain socket: many requests under way, answers in any order."""

from __future__ import annotations

import itertools
import socket
from types import TracebackType
from typing import Self

from qmq_client import frame
from qmq_client.bodies import (
    Consumer,
    Pull,
    Pulled,
    Refused,
    Registered,
    acknowledgement,
    read_pulled,
    read_refused,
    read_registered,
    register,
    reset,
)
from qmq_client.frame import Frame, read_frame
from qmq_client.message import Message, send_body

# How long an answer is waited for before the test gives up; no test depends on how long it takes.
PATIENCE_SECONDS = 30
READ_BYTES = 1 << 16


class ClosedError(Exception):
    """The server ended the connection."""


class AnsweredError(Exception):
    """An answer with another code than the caller can use."""

    def __init__(self, code: int) -> None:
        super().__init__(f"answered {code}")
        self.code = code


class Connection:
    """A client of QMQ; version 9 unless said otherwise."""

    def __init__(self, address: str, *, version: int = 9) -> None:
        host, port = address.split(":")
        self.version = version
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A registration is 0 wherever it comes.
        self._opaques = itertools.count(1)
        self._unread = b""
        # Answers that came before they were asked for; CLIENT_REGISTER uses 0 for each of its own.
        self._answers: dict[int, list[Frame]] = {}
        # In the order they came.
        self.order: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # Bytes.

    def write(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._socket.sendall(data)

    def end_writing(self) -> None:
        """Half closes: nothing more is sent, answers can still come."""
        self._socket.shutdown(socket.SHUT_WR)

    def has_room_for(self, data: bytes, seconds: float) -> bool:
        """Whether all of it could be written before the time is over; False also where the connection was cut."""
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        finally:
            self._socket.settimeout(PATIENCE_SECONDS)
        return True

    def until_closed(self) -> list[Frame]:
        """Waits until the server ends the connection; what it said before."""
        said = []
        try:
            while True:
                said.append(self._next())
        except ClosedError:
            return said

    def _next(self) -> Frame:
        while (found := read_frame(self._unread)) is None:
            try:
                piece = self._socket.recv(READ_BYTES)
            except ConnectionError as error:
                raise ClosedError(str(error)) from error
            if not piece:
                raise ClosedError(f"with {len(self._unread)} bytes of a frame")
            self._unread += piece
        answer, length = found
        self._unread = self._unread[length:]
        self.order.append(answer.opaque)
        return answer

    # Requests and their answers.

    def ask(
        self,
        code: int,
        body: bytes,
        *,
        opaque: int | None = None,
        flag: int = frame.REQUEST,
        request_code: int | None = None,
        version: int | None = None,
    ) -> int:
        """Sends a request; by what it returns its answer is known."""
        number = next(self._opaques) if opaque is None else opaque
        whole = Frame(
            code,
            self.version if version is None else version,
            number,
            flag,
            code if request_code is None else request_code,
            body,
        )
        self.write(whole.encoded())
        return number

    def answer(self, opaque: int) -> Frame:
        """Waits for that answer; those of others are kept."""
        while not self._answers.get(opaque):
            answer = self._next()
            self._answers.setdefault(answer.opaque, []).append(answer)
        return self._answers[opaque].pop(0)

    def call(self, code: int, body: bytes) -> Frame:
        """Asks and waits."""
        return self.answer(self.ask(code, body))

    def send(self, *messages: Message) -> tuple[Refused, ...]:
        """SEND; those that were not stored."""
        answer = self.call(frame.SEND, send_body(messages))
        if answer.code != frame.SUCCESS:
            raise AnsweredError(answer.code)
        return read_refused(answer.body)

    def ask_pull(self, pull: Pull) -> int:
        """PULL, without waiting."""
        return self.ask(frame.PULL, pull.encoded(self.version))

    def pulled(self, opaque: int) -> Pulled | None:
        """The answer to a PULL; nothing where no message was there."""
        answer = self.answer(opaque)
        if answer.code == frame.NO_MESSAGE:
            assert not answer.body
            return None
        if answer.code != frame.SUCCESS:
            raise AnsweredError(answer.code)
        return read_pulled(answer.body)

    def pull(self, pull: Pull) -> Pulled | None:
        """PULL, and its answer."""
        return self.pulled(self.ask_pull(pull))

    def acknowledge(self, consumer: Consumer, first: int, last: int, *, broadcast: bool = False) -> int:
        """ACK; the answer's code."""
        body = acknowledgement(consumer, first, last, self.version, broadcast=broadcast)
        answer = self.call(frame.ACK, body)
        assert not answer.body
        return answer.code

    def heartbeat(self, consumer: Consumer) -> int:
        """ACK of nothing, as a consumer sends it every ten seconds."""
        return self.acknowledge(consumer, -1, -1)

    def reset(self, subject: str, group: str, code: int) -> int:
        """CONSUME_MANAGE; the answer's code."""
        answer = self.call(frame.CONSUME_MANAGE, reset(subject, group, code))
        assert not answer.body
        return answer.code

    def register(self, values: tuple[tuple[str, str], ...]) -> Registered:
        """CLIENT_REGISTER, always under opaque 0."""
        answer = self.answer(self.ask(frame.REGISTER, register(values), opaque=0))
        if answer.code != frame.SUCCESS:
            raise AnsweredError(answer.code)
        return read_registered(answer.body)
