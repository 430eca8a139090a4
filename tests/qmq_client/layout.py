"""What all bodies are made of: big-endian numbers, and text behind its length."""

from __future__ import annotations

import struct
from collections.abc import Iterable

TEXT_BYTES_MAX = 32_767


class MalformedError(Exception):
    """The bytes are not what the protocol says."""


def i8(value: int) -> bytes:
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def text(value: str) -> bytes:
    """The length in bytes, then UTF-8. A client of Java reads the length signed."""
    data = value.encode()
    if len(data) > TEXT_BYTES_MAX:
        raise MalformedError(f"a text of {len(data)} bytes")
    return i16(len(data)) + data


def texts(values: Iterable[str]) -> bytes:
    """Each text behind the other, after their count in one byte."""
    whole = tuple(values)
    return i8(len(whole)) + b"".join(text(value) for value in whole)


def pairs(values: Iterable[tuple[str, str]]) -> bytes:
    """Keys with their values, without a count."""
    return b"".join(text(key) + text(value) for key, value in values)


def decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"a text that is not UTF-8 at {error.start}") from None


class Cursor:
    """Reads from front to end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return len(self._data) - self.position

    def take(self, count: int) -> bytes:
        """The next bytes, all of them or none."""
        if not 0 <= count <= self.left:
            raise MalformedError(f"{count} bytes wanted at {self.position}, {self.left} left")
        self.position += count
        return self._data[self.position - count : self.position]

    def since(self, start: int) -> bytes:
        """What was read since that position."""
        return self._data[start : self.position]

    def i8(self) -> int:
        return int.from_bytes(self.take(1), signed=True)

    def i16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), signed=True)

    def text(self) -> str:
        return decoded(self.take(self.i16()))

    def flag(self) -> bool:
        """A byte that is 0 or 1."""
        found = self.i8()
        if found not in (0, 1):
            raise MalformedError(f"a flag of {found}")
        return bool(found)

    def count(self, found: int) -> int:
        """A count, which is not negative."""
        if found < 0:
            raise MalformedError(f"a count of {found}")
        return found

    def texts(self) -> tuple[str, ...]:
        """Texts behind their count in one byte."""
        return tuple(self.text() for _ in range(self.count(self.i8())))

    def end(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise MalformedError(f"{self.left} bytes too many")
