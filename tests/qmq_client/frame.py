"""Frames: a length, eighteen bytes of header, a body."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from qmq_client.layout import MalformedError

MAGIC = 0xDEC10ADE
HEADER_BYTES = 18
# The length counts the header's own length too, but not itself.
OVERHEAD_BYTES = HEADER_BYTES + 2
LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hIhhiih")

SEND = 10
PULL = 11
ACK = 12
SYNC_LOG = 20
CONSUME_MANAGE = 25
REGISTER = 35
HEARTBEAT = 100

SUCCESS = 0
UNKNOWN_CODE = 3
NO_MESSAGE = 4
BROKER_ERROR = 51
BROKER_REJECT = 52
PARAM_ERROR = 53

REQUEST = 0
RESPONSE = 1
ONE_WAY = 2
# What clients of some kinds write in place of the request's code.
PLACEHOLDER = -1


@dataclass(frozen=True)
class Frame:
    """One request or answer."""

    code: int
    version: int
    opaque: int
    flag: int
    request_code: int
    body: bytes = b""

    def encoded(self, *, magic: int = MAGIC, header_bytes: int = HEADER_BYTES, total: int | None = None) -> bytes:
        """The bytes, right ones unless something else is asked for."""
        length = OVERHEAD_BYTES + len(self.body) if total is None else total
        header = HEADER.pack(header_bytes, magic, self.code, self.version, self.opaque, self.flag, self.request_code)
        return LENGTH.pack(length) + header + self.body


def request(code: int, body: bytes, *, opaque: int, version: int = 9) -> Frame:
    """As a client of Java writes it."""
    return Frame(code, version, opaque, REQUEST, code, body)


def read_frame(data: bytes) -> tuple[Frame, int] | None:
    """The first frame and its length in bytes; nothing where it is not whole yet."""
    if len(data) < LENGTH.size:
        return None
    (total,) = LENGTH.unpack_from(data)
    if total < OVERHEAD_BYTES:
        raise MalformedError(f"a frame of {total} bytes")
    whole = LENGTH.size + total
    if len(data) < whole:
        return None
    header_bytes, magic, *fields = HEADER.unpack_from(data, LENGTH.size)
    if (header_bytes, magic) != (HEADER_BYTES, MAGIC):
        raise MalformedError(f"a header of {header_bytes} bytes with {magic:#x}")
    code, version, opaque, flag, request_code = fields
    return Frame(code, version, opaque, flag, request_code, data[LENGTH.size + OVERHEAD_BYTES : whole]), whole
