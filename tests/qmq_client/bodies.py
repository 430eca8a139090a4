"""The bodies of all other requests, and of all answers."""

from __future__ import annotations

from dataclasses import dataclass

from qmq_client.layout import Cursor, i8, i16, i32, i64, text, texts
from qmq_client.layout import pairs as encoded_pairs
from qmq_client.message import Message, read_messages

PRODUCER = 1
CONSUMER = 2
OTHER = 3
DELAY_PRODUCER = 4

ONLINE = 1
REGISTER_HEARTBEAT = 2

LATEST = 1
EARLIEST = 2

NO_TAGS = 0
ANY_OF = 1
ALL_OF = 2

FILTER_BY_TAG = 1
FILTER_BY_ENVIRONMENT = 2

FIRST_VERSION_WITH_TAGS = 8
FIRST_VERSION_WITH_A_LIST = 9

READ_WRITE = 1


@dataclass(frozen=True)
class TagFilter:
    """Only messages that bear one of the tags, or all of them."""

    kind: int = NO_TAGS
    tags: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        return i16(self.kind) + texts(self.tags)


@dataclass(frozen=True)
class EnvironmentFilter:
    """Only messages of a part of an environment."""

    environment: str
    part: str

    def encoded(self) -> bytes:
        return text(self.environment) + text(self.part)


@dataclass(frozen=True)
class UnknownFilter:
    """What the protocol does not know."""

    kind: int
    content: bytes

    def encoded(self) -> bytes:
        return self.content


Filter = TagFilter | EnvironmentFilter | UnknownFilter


@dataclass(frozen=True)
class Consumer:
    """Who pulls and acknowledges."""

    subject: str
    group: str
    consumer_id: str

    def encoded(self) -> bytes:
        return text(self.subject) + text(self.group) + text(self.consumer_id)


@dataclass(frozen=True)
class Pull:
    """What is asked for in one PULL. A listener of Java always names one filter of tags."""

    consumer: Consumer
    count: int = 50
    first_unacknowledged: int = -1
    last_received: int = -1
    hold_ms: int = -1
    broadcast: bool = False
    filters: tuple[Filter, ...] = (TagFilter(),)
    offset: int = -1

    def encoded(self, version: int) -> bytes:
        """The bytes of that version: without filters, with one, or with a list of them."""
        whole = (
            self.consumer.encoded()
            + i32(self.count)
            + i64(self.offset)
            + i64(self.first_unacknowledged)
            + i64(self.last_received)
            + i64(self.hold_ms)
            + i8(self.broadcast)
        )
        if version < FIRST_VERSION_WITH_TAGS:
            return whole
        if version < FIRST_VERSION_WITH_A_LIST:
            only = self.filters[0] if self.filters else TagFilter(NO_TAGS)
            return whole + only.encoded()
        return whole + i32(len(self.filters)) + b"".join(i16(_kind(one)) + one.encoded() for one in self.filters)


def _kind(one: Filter) -> int:
    match one:
        case TagFilter():
            return FILTER_BY_TAG
        case EnvironmentFilter():
            return FILTER_BY_ENVIRONMENT
        case UnknownFilter():
            return one.kind


@dataclass(frozen=True)
class Pulled:
    """Messages, the first under this pull offset and each further one under the next."""

    first: int
    messages: tuple[Message, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.messages) - 1

    @property
    def offsets(self) -> dict[str, int]:
        """The pull offset of each message, by its id."""
        return {message.message_id: self.first + place for place, message in enumerate(self.messages)}


def read_pulled(body: bytes) -> Pulled:
    cursor = Cursor(body)
    first = cursor.i64()
    cursor.i64()
    return Pulled(first, read_messages(cursor.take(cursor.left)))


def acknowledgement(consumer: Consumer, first: int, last: int, version: int, *, broadcast: bool = False) -> bytes:
    """The body of an ACK; -1 and -1 are a heartbeat."""
    tail = i8(broadcast) if version >= FIRST_VERSION_WITH_TAGS else b""
    return consumer.encoded() + i64(first) + i64(last) + tail


def reset(subject: str, group: str, code: int) -> bytes:
    """The body of a CONSUME_MANAGE."""
    return text(subject) + text(group) + i32(code)


@dataclass(frozen=True)
class Refused:
    """A message that was not stored."""

    message_id: str
    code: int
    remark: str


def read_refused(body: bytes) -> tuple[Refused, ...]:
    """The body of the answer to a SEND: only those that failed."""
    cursor = Cursor(body)
    found = []
    while cursor.left:
        found.append(Refused(cursor.text(), cursor.i32(), cursor.text()))
    return tuple(found)


def registration(
    subject: str, client_type: int, *, client_id: str, group: str = "", app: str = "app", kind: int = ONLINE
) -> tuple[tuple[str, str], ...]:
    """What a client says of itself, as keys and values."""
    return (
        ("subject", subject),
        ("clientTypeCode", str(client_type)),
        ("clientId", client_id),
        ("consumerGroup", group),
        ("appCode", app),
        ("requestType", str(kind)),
    )


def register(values: tuple[tuple[str, str], ...]) -> bytes:
    """The body of a CLIENT_REGISTER: a map, in any order."""
    return i16(len(values)) + encoded_pairs(values)


@dataclass(frozen=True)
class BrokerGroup:
    """Where a client is sent to."""

    name: str
    master: str
    update_time: int
    state: int


@dataclass(frozen=True)
class Registered:
    """The answer to a CLIENT_REGISTER."""

    timestamp: int
    subject: str
    group: str
    is_off: bool
    client_type: int
    groups: tuple[BrokerGroup, ...]


def read_registered(body: bytes) -> Registered:
    cursor = Cursor(body)
    found = Registered(
        cursor.i64(),
        cursor.text(),
        cursor.text(),
        cursor.flag(),
        cursor.i8(),
        tuple(
            BrokerGroup(cursor.text(), cursor.text(), cursor.i64(), cursor.i8())
            for _ in range(cursor.count(cursor.i16()))
        ),
    )
    cursor.end()
    return found
