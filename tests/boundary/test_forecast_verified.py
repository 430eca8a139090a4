"""What a checkpoint says is due in each minute is counted again by `verify`, though all its checks fit."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq import _core

WHEN = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=2)
MINUTE = int(WHEN.timestamp()) // 60
HEADER_BYTES = 64
TOTAL = struct.pack("<IQQ", MINUTE, 2, 6)
"""What is pending of the minute, as part 17 has it: two messages of 3 bytes."""
ENDED = struct.pack("<IIQQ", 1, MINUTE, 1, 3)
"""What was cancelled of it since the run was written, as part 18 has it."""


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A store whose last checkpoint has a run with three messages of one minute, one of which was cancelled."""
    path = tmp_path / "store"
    with delaymq.open(path, durability="os") as store:
        receipts = store.publish_many([delaymq.Publish("orders", b"abc", at=WHEN)] * 3)
        store.checkpoint()
        assert store.cancel(receipts[0]) is delaymq.Outcome.DONE
        store.checkpoint()
    assert _core.verify(str(path))["problems"] == []
    return path


def checkpoints(path: Path) -> Iterator[Path]:
    yield from sorted((path / "checkpoints").iterdir())


def alter(path: Path, found: bytes, instead: bytes) -> None:
    """Puts other bytes in their place wherever they are, behind what a copy of the stream has too; all checks fit."""
    altered = 0
    for file in checkpoints(path):
        bytes_ = bytearray(file.read_bytes())
        begins = HEADER_BYTES + struct.unpack_from("<Q", bytes_, 48)[0]
        place = bytes_.find(found, begins)
        if place < 0:
            continue
        altered += 1
        bytes_[place : place + len(instead)] = instead
        struct.pack_into("<I", bytes_, 56, zlib.crc32(bytes_[HEADER_BYTES:]))
        struct.pack_into("<I", bytes_, 60, zlib.crc32(bytes_[:60]))
        file.write_bytes(bytes_)
    assert altered > 0


def test_other_totals_of_a_minute_are_found(closed: Path) -> None:
    alter(closed, TOTAL, struct.pack("<IQQ", MINUTE, 2, 7))
    problems = _core.verify(str(closed))["problems"]
    assert any("of what is due in each minute" in one for one in problems), problems


def test_a_total_of_another_minute_is_found(closed: Path) -> None:
    alter(closed, TOTAL, struct.pack("<IQQ", MINUTE + 1, 2, 6))
    problems = _core.verify(str(closed))["problems"]
    assert any("of what is due in each minute" in one for one in problems), problems


def test_another_cell_is_found_and_named(closed: Path) -> None:
    alter(closed, ENDED, struct.pack("<IIQQ", 1, MINUTE, 1, 2))
    problems = _core.verify(str(closed))["problems"]
    counted = f'2 messages of 6 bytes of subject "orders" are due within a minute of {WHEN:%Y-%m-%dT%H:%M:%SZ}'
    assert problems == [f"checkpoints/0000000002.checkpoint: {counted}, and 2 of 7 are told"]
