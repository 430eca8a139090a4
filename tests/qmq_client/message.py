"""Messages, as a producer sends them and as a consumer is given them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from qmq_client.layout import Cursor, MalformedError, decoded, i8, i32, i64, pairs, text, texts

LOW_RELIABILITY = 1
DELAY = 2
TAGGED = 4

CREATE_TIME = "qmq_createTime"
SCHEDULE_TIME = "qmq_scheduleReceiveTime"


@dataclass(frozen=True)
class Message:
    """One message; the schedule time stands in `expire_time` where the delay bit is set."""

    subject: str
    message_id: str
    create_time: int = 1_700_000_000_000
    expire_time: int = 1_700_000_000_000
    delayed: bool = False
    low_reliability: bool = False
    tags: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ((CREATE_TIME, "1700000000000"),)
    # As it came from the server, to be compared byte by byte.
    encoded_as: bytes = field(default=b"", compare=False, repr=False)

    @property
    def flag(self) -> int:
        """The byte of bits."""
        reliability = LOW_RELIABILITY if self.low_reliability else 0
        return reliability | (DELAY if self.delayed else 0) | (TAGGED if self.tags else 0)

    def encoded(self, *, flag: int | None = None, body: bytes | None = None, body_bytes: int | None = None) -> bytes:
        """All from the flag on; whatever is given stands in place of what would be right."""
        content = pairs(self.attributes) if body is None else body
        return b"".join(
            (
                i8(self.flag if flag is None else flag),
                i64(self.create_time),
                i64(self.expire_time),
                text(self.subject),
                text(self.message_id),
                texts(self.tags) if self.tags else b"",
                i32(len(content) if body_bytes is None else body_bytes),
                content,
            )
        )

    def sent(self) -> bytes:
        """As it stands in the body of a SEND."""
        return checked(self.encoded())


def checked(encoded: bytes, *, crc: int | None = None) -> bytes:
    """A message behind its check, or behind another one."""
    return i64(zlib.crc32(encoded) if crc is None else crc) + encoded


def read_message(cursor: Cursor) -> Message:
    """The next one, from its flag on."""
    start = cursor.position
    flag = cursor.i8()
    if flag & ~(LOW_RELIABILITY | DELAY | TAGGED):
        raise MalformedError(f"a flag of {flag}")
    create_time, expire_time = cursor.i64(), cursor.i64()
    subject, message_id = cursor.text(), cursor.text()
    tags = cursor.texts() if flag & TAGGED else ()
    body = Cursor(cursor.take(cursor.i32()))
    attributes = []
    while body.left:
        key = body.text()
        # Clients read the length of a value without its sign.
        (length,) = struct.unpack(">H", body.take(2))
        attributes.append((key, decoded(body.take(length))))
    return Message(
        subject,
        message_id,
        create_time,
        expire_time,
        delayed=bool(flag & DELAY),
        low_reliability=bool(flag & LOW_RELIABILITY),
        tags=tags,
        attributes=tuple(attributes),
        encoded_as=cursor.since(start),
    )


def read_messages(data: bytes) -> tuple[Message, ...]:
    """All of them, back to back."""
    cursor = Cursor(data)
    found = []
    while cursor.left:
        found.append(read_message(cursor))
    return tuple(found)


def attributes_of(create_time: int, schedule_time: int | None = None, /, **others: str) -> tuple[tuple[str, str], ...]:
    """What a producer of Java always writes, and what the caller adds."""
    scheduled = () if schedule_time is None else ((SCHEDULE_TIME, str(schedule_time)),)
    return ((CREATE_TIME, str(create_time)), *scheduled, *others.items())


def send_body(messages: Iterable[Message]) -> bytes:
    """The body of a SEND: messages behind their checks, back to back, without a count."""
    return b"".join(message.sent() for message in messages)
