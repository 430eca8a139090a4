"""Receipts, and the keyed hash that proves them."""

from __future__ import annotations

import base64
from typing import Any

from format_reader.layout import Layout, demand

LAYOUT = Layout(
    ("version", 1),
    ("stream*", 16),
    ("epoch", 4),
    ("sequence", 8),
    ("due", 6),
    ("subject", 4),
    ("size", 4),
    ("check", 5),
)
PREFIX = "dmq1-"
MASK = (1 << 64) - 1


def read_receipt(data: bytes) -> dict[str, Any]:
    demand(len(data) == LAYOUT.size, 0, f"{LAYOUT.size} bytes", len(data))
    fields = LAYOUT.read(data)
    demand(fields["version"] == 1, 0, 1, fields["version"])
    return fields | {"stream": LAYOUT.bytes_of(data, "stream")}


def parse_receipt(text: str) -> bytes:
    demand(text.startswith(PREFIX), 0, PREFIX, text[:5])
    return base64.b64decode(text.removeprefix(PREFIX), altchars=b"-_", validate=True)


def receipt_check(data: bytes, nonce: bytes) -> int:
    """What the last five bytes must be under the epoch's nonce."""
    return siphash_2_4(nonce, data[:43]) & ((1 << 40) - 1)


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & MASK


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & MASK
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = (v2 + v3) & MASK
    v3 = _rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & MASK
    v3 = _rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & MASK
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


def siphash_2_4(key: bytes, data: bytes) -> int:
    """SipHash-2-4 as its authors define it: two rounds a word, four at the end."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = (k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573)
    last = data[len(data) // 8 * 8 :].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for start in range(0, len(data) // 8 * 8 + 8, 8):
        chunk = data[start : start + 8] if start + 8 <= len(data) else last
        word = int.from_bytes(chunk, "little")
        v0, v1, v2, v3 = state
        state = _round(*_round(v0, v1, v2, v3 ^ word))
        state = (state[0] ^ word, *state[1:])
    v0, v1, v2, v3 = state
    state = (v0, v1, v2 ^ 0xFF, v3)
    for _ in range(4):
        state = _round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]
