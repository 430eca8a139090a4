"""The bodies of requests as a server reads them: the other half of what this client writes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qmq_client.bodies import (
    ALL_OF,
    ANY_OF,
    FILTER_BY_ENVIRONMENT,
    FILTER_BY_TAG,
    FIRST_VERSION_WITH_A_LIST,
    FIRST_VERSION_WITH_TAGS,
    NO_TAGS,
    OTHER,
    Consumer,
    EnvironmentFilter,
    Filter,
    Pull,
    TagFilter,
)
from qmq_client.layout import Cursor, MalformedError
from qmq_client.message import Message, read_message

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")


def read_send(body: bytes) -> tuple[tuple[int, Message], ...]:
    """Messages back to back, each behind its check of 64 bits."""
    cursor = Cursor(body)
    found = []
    while cursor.left:
        found.append((cursor.i64(), read_message(cursor)))
    return tuple(found)


def read_consumer(cursor: Cursor) -> Consumer:
    return Consumer(cursor.text(), cursor.text(), cursor.text())


def read_pull(body: bytes, version: int) -> Pull:
    cursor = Cursor(body)
    consumer, count, offset = read_consumer(cursor), cursor.i32(), cursor.i64()
    first, last, hold_ms, broadcast = cursor.i64(), cursor.i64(), cursor.i64(), bool(cursor.i8())
    filters: tuple[Filter, ...] = ()
    if version >= FIRST_VERSION_WITH_A_LIST:
        filters = tuple(_read_filter(cursor) for _ in range(cursor.count(cursor.i32())))
    elif version >= FIRST_VERSION_WITH_TAGS:
        filters = (_read_tags(cursor),)
    cursor.end()
    return Pull(consumer, count, first, last, hold_ms, broadcast, filters, offset)


def _read_filter(cursor: Cursor) -> Filter:
    kind = cursor.i16()
    if kind == FILTER_BY_TAG:
        return _read_tags(cursor)
    if kind == FILTER_BY_ENVIRONMENT:
        return EnvironmentFilter(cursor.text(), cursor.text())
    raise MalformedError(f"a filter of type {kind}")


def _read_tags(cursor: Cursor) -> TagFilter:
    kind = cursor.i16()
    found = TagFilter(kind, cursor.texts())
    if kind not in (NO_TAGS, ANY_OF, ALL_OF):
        raise MalformedError(f"a tag filter of type {kind}")
    return found


@dataclass(frozen=True)
class Acknowledgement:
    """What an ACK says; -1 and -1 are a sign of life."""

    consumer: Consumer
    first: int
    last: int
    broadcast: bool


def read_acknowledgement(body: bytes, version: int) -> Acknowledgement:
    cursor = Cursor(body)
    consumer, first, last = read_consumer(cursor), cursor.i64(), cursor.i64()
    broadcast = version >= FIRST_VERSION_WITH_TAGS and bool(cursor.i8())
    cursor.end()
    return Acknowledgement(consumer, first, last, broadcast)


def read_reset(body: bytes) -> tuple[str, str, int]:
    cursor = Cursor(body)
    found = cursor.text(), cursor.text(), cursor.i32()
    cursor.end()
    return found


@dataclass(frozen=True)
class Registration:
    """What a client says of itself."""

    subject: str
    client_type: int
    app: str
    client_id: str
    group: str
    kind: int
    room: str


def read_registration(body: bytes) -> Registration:
    """A map with values of text; what is missing has a default."""
    cursor = Cursor(body)
    said = {cursor.text(): cursor.text() for _ in range(cursor.count(cursor.i16()))}
    cursor.end()
    return Registration(
        said.get("subject", ""),
        _number(said.get("clientTypeCode", str(OTHER))),
        said.get("appCode", ""),
        said.get("clientId", ""),
        said.get("consumerGroup", ""),
        _number(said.get("requestType", "1")),
        said.get("clientLDC", ""),
    )


def _number(text: str) -> int:
    if not WHOLE_NUMBER.fullmatch(text):
        raise MalformedError(f"a number in text, not {text[:40]!r}")
    found = int(text)
    if not -(2**63) <= found < 2**63:
        raise MalformedError(f"a number of more than 64 bits: {found}")
    return found
