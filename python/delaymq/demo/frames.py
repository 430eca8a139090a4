"""Frames: the reports of a process to the parent, through a pipe that outlives the process.

A frame is a kind (1 byte), the length of what follows the header (4 bytes), the child's clock in
microseconds since 1970 (8 bytes), then numbers or JSON. A frame that the child did not finish
before it was killed is ignored.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

HEADER = struct.Struct("<BIQ")


class Kind(IntEnum):
    """The kind of a frame."""

    OPENED = 1  # JSON: figures of the open, also if a server reports its own
    BEGUN = 2  # numbers: a publish of these is in progress
    ANSWERED = 3  # numbers: their publish was answered
    RECEIPTS = 4  # JSON: [number, receipt] of messages that are to be cancelled
    CANCEL_ANSWERED = 5  # JSON: [number, outcome]
    DELIVERED = 6  # Deliveries
    ACKED = 7  # numbers: their acknowledgement is durable
    FAILED = 8  # JSON: an exception that the child did not expect
    PUBLISHED_ALL = 9  # no message is left to publish or cancel
    LOST = 10  # the connection is lost, and all messages that it had delivered were reported


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame."""

    kind: Kind
    time_us: int
    payload: bytes

    def numbers(self) -> array[int]:
        """The numbers in it."""
        numbers = array("I")
        numbers.frombytes(self.payload)
        return numbers

    def json(self) -> Any:  # noqa: ANN401 - JSON is of any kind
        """The value of its JSON."""
        return json.loads(self.payload)


@dataclass(slots=True)
class Deliveries:
    """One batch of deliveries, column by column."""

    numbers: array[int]
    due_ms: array[int]
    flags: bytearray

    REDELIVERED = 1
    ALTERED = 2

    @classmethod
    def empty(cls) -> Deliveries:
        """No deliveries."""
        return cls(array("I"), array("Q"), bytearray())

    def add(self, number: int, due_ms: int, *, redelivered: bool, altered: bool) -> None:
        """Adds a delivery."""
        self.numbers.append(number)
        self.due_ms.append(due_ms)
        self.flags.append((self.REDELIVERED if redelivered else 0) | (self.ALTERED if altered else 0))

    def to_bytes(self) -> bytes:
        """Encodes the payload of a frame."""
        count = struct.pack("<I", len(self.numbers))
        return b"".join((count, self.numbers.tobytes(), self.due_ms.tobytes(), self.flags))

    @classmethod
    def from_bytes(cls, payload: bytes) -> Deliveries:
        """Decodes the payload of a frame."""
        (count,) = struct.unpack_from("<I", payload)
        numbers, due_ms = array("I"), array("Q")
        due_at = 4 + count * numbers.itemsize
        flags_at = due_at + count * due_ms.itemsize
        numbers.frombytes(payload[4:due_at])
        due_ms.frombytes(payload[due_at:flags_at])
        return cls(numbers, due_ms, bytearray(payload[flags_at:]))


class FrameWriter:
    """The child's end of the pipe. Threads may share it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, kind: Kind, payload: bytes = b"", time_us: int | None = None) -> None:
        """Sends a frame, and returns when it is in the pipe."""
        now_us = time.time_ns() // 1000 if time_us is None else time_us
        left = memoryview(HEADER.pack(kind, len(payload), now_us) + payload)
        with self._lock:
            while left:
                left = left[os.write(self._descriptor, left) :]

    def send_numbers(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Sends numbers."""
        self.send(kind, array("I", numbers).tobytes())

    def send_json(self, kind: Kind, value: object) -> None:
        """Sends a value as JSON."""
        self.send(kind, json.dumps(value).encode())


class FrameReader:
    """The parent's end of the pipe, which decodes frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that are complete with this chunk."""
        self._bytes += chunk
        start = 0
        while len(self._bytes) - start >= HEADER.size:
            kind, length, time_us = HEADER.unpack_from(self._bytes, start)
            end = start + HEADER.size + length
            if end > len(self._bytes):
                break
            yield Frame(Kind(kind), time_us, bytes(self._bytes[start + HEADER.size : end]))
            start = end
        del self._bytes[:start]
