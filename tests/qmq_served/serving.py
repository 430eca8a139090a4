"""`delaymq serve` as a process of its own, on free ports of this machine."""

from __future__ import annotations

from pathlib import Path

from qmq_client.bodies import Consumer, Pull, Pulled, read_registered, register, registration
from qmq_client.connection import Connection
from qmq_client.frame import NO_MESSAGE, PULL, REGISTER, SUCCESS
from qmq_client.message import Message
from serving import Served

HOUR_MS = 3_600_000
# What a consumer of a test waits for a message that will come.
HOLD_MS = 20_000


class QmqServed(Served):
    """A served store, with clients that speak QMQ's protocol."""

    def __init__(self, folder: Path, *settings: str) -> None:
        super().__init__(folder, *(part for pair in settings for part in ("--set", pair)))

    def connected(self, version: int = 9) -> Connection:
        """A client of its own."""
        return Connection(self.address, version=version)

    def now_ms(self) -> int:
        """The time by the clock that decides what is due."""
        with self.connected() as connection:
            values = registration("clock", 1, client_id="clock")
            answer = connection.answer(connection.ask(REGISTER, register(values), opaque=0))
        assert answer.code == SUCCESS
        return read_registered(answer.body).timestamp


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
