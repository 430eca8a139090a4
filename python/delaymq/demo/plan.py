"""The plan: the messages of the demo. Parent and child compute the same plan from the same seed."""

from __future__ import annotations

import random
import struct
import zlib
from array import array
from dataclasses import dataclass, field

BODY_BYTES_MIN = 20
BODY_BYTES_MAX = 4096
DUE_NOW_SHARE = 0.3  # the other messages are due evenly between now and the longest delay
CANCELLED_SHARE = 0.05
CANCEL_DELAY_MS_MIN = 3000  # messages to cancel are due late enough for that
HEADER = struct.Struct("<QI")  # the message's number and the CRC-32 of the rest of the body


@dataclass
class Plan:
    """The demo's messages, numbered from 0.

    Attributes:
        messages: The number of messages.
        subjects: The number of subjects.
        delay_ms_max: The longest delay.
        seed: The seed of the random generator.
    """

    messages: int
    subjects: int
    delay_ms_max: int
    seed: int
    delays_ms: array[int] = field(init=False, repr=False)
    sizes: array[int] = field(init=False, repr=False)
    subject_of: array[int] = field(init=False, repr=False)
    cancelled: bytearray = field(init=False, repr=False)
    _noise: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Generates every message."""
        draw = random.Random(self.seed)  # noqa: S311 - a plan, not a secret
        self._noise = draw.randbytes(2 * BODY_BYTES_MAX)
        self.delays_ms, self.sizes, self.subject_of = array("I"), array("H"), array("H")
        self.cancelled = bytearray(self.messages)
        late = min(CANCEL_DELAY_MS_MIN, self.delay_ms_max // 2)
        late_share = (1 - DUE_NOW_SHARE) * (1 - late / self.delay_ms_max)
        spread = BODY_BYTES_MAX / BODY_BYTES_MIN
        for number in range(self.messages):
            now = draw.random() < DUE_NOW_SHARE
            delay_ms = 0 if now else int(draw.random() * self.delay_ms_max) + 1
            self.delays_ms.append(delay_ms)
            self.sizes.append(int(BODY_BYTES_MIN * spread ** draw.random()))  # most bodies are small
            self.subject_of.append(draw.randrange(self.subjects))
            if delay_ms > late and draw.random() < CANCELLED_SHARE / late_share:
                self.cancelled[number] = 1

    def subject(self, number: int) -> str:
        """The subject of a message."""
        return self.subject_name(self.subject_of[number])

    @staticmethod
    def subject_name(subject: int) -> str:
        """The name of a subject."""
        return f"demo.{subject:03d}"

    def body(self, number: int) -> bytes:
        """The body of a message: its number, a checksum, and bytes that depend on the number."""
        start = number % BODY_BYTES_MAX
        rest = self._noise[start : start + self.sizes[number] - HEADER.size]
        return HEADER.pack(number, zlib.crc32(rest)) + rest

    def number_in(self, body: bytes) -> int | None:
        """The number in a body, or None if it is not of this plan."""
        if len(body) < HEADER.size:
            return None
        number = int(HEADER.unpack_from(body)[0])
        return number if number < self.messages else None
