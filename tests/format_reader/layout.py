"""Fields in little-endian bytes, and what to say where bytes are not what they must be."""

from __future__ import annotations

import zlib

FORMAT = 1
U32_MASK = 0xFFFF_FFFF


class DamagedError(Exception):
    """Bytes that are not what the format says."""

    def __init__(self, offset: int, expected: object, found: object) -> None:
        super().__init__(f"offset {offset}: expected {expected}, found {found}")
        self.offset = offset
        self.expected = expected
        self.found = found


class Layout:
    """A run of fields without gaps: names with their bytes; `name*` keeps bytes, others are numbers."""

    def __init__(self, *fields: tuple[str, int]) -> None:
        self.fields = fields
        self.size = sum(size for _, size in fields)

    def read(self, data: bytes, offset: int = 0) -> dict[str, int]:
        """The numbers by name. Fields of bytes are left out: `bytes_of` reads them."""
        self._demand(data, offset)
        values = {}
        at = offset
        for name, size in self.fields:
            if not name.endswith("*"):
                values[name] = int.from_bytes(data[at : at + size], "little")
            at += size
        return values

    def bytes_of(self, data: bytes, name: str, offset: int = 0) -> bytes:
        self._demand(data, offset)
        at = offset
        for field, size in self.fields:
            if field == f"{name}*":
                return data[at : at + size]
            at += size
        raise KeyError(name)

    def _demand(self, data: bytes, offset: int) -> None:
        if len(data) < offset + self.size:
            raise DamagedError(offset, f"{self.size} bytes", f"{len(data) - offset} bytes")


class Cursor:
    """Reads forward through bytes of varying shape."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset

    def pair(self) -> tuple[int, int]:
        """Two numbers of 8 bytes: the hash of a name."""
        return self.number(8), self.number(8)

    def take(self, size: int) -> bytes:
        taken = self.data[self.offset : self.offset + size]
        demand(len(taken) == size, self.offset, f"{size} bytes", f"{len(taken)} bytes")
        self.offset += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def text(self, size: int) -> str:
        return self.take(size).decode("utf-8")

    @property
    def at_end(self) -> bool:
        return self.offset == len(self.data)


def demand(true: bool, offset: int, expected: object, found: object) -> None:
    if not true:
        raise DamagedError(offset, expected, found)


def crc32(*parts: bytes) -> int:
    check = 0
    for part in parts:
        check = zlib.crc32(part, check)
    return check


def padded(length: int) -> int:
    return (length + 7) // 8 * 8


def location(value: int) -> tuple[str, int, int]:
    """What a location says: `segment` or `run`, the file's number, the offset."""
    return ("run" if value >> 63 else "segment", (value >> 32) & 0x7FFF_FFFF, value & U32_MASK)
