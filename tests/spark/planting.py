"""Faults in a copy of a store, under checks that fit: each as a bug of the store would leave it."""

from __future__ import annotations

from pathlib import Path

import delaymq
from crafting import flip, overwrite, runs_of
from format_reader.layout import Layout, crc32
from format_reader.runs import BLOCK, BLOCK_BYTES, BLOCK_ROWS, HEADER, SCHEDULE, SCHEDULE_ROW

MESSAGES = 200
DELAY_S = 3_600


def waiting(path: Path) -> Path:
    """A store whose messages are due a minute after each other, in one run, and whose log is kept."""
    with delaymq.open(path, durability="os") as store:
        for number in range(MESSAGES):
            store.publish("orders", b"body %03d" % number, delay=DELAY_S + 60 * number)
        store.checkpoint()
    return path


def lose_and_double(path: Path) -> tuple[int, int]:
    """The row of one message names another instead; the sequences of what is lost and of what is twice there."""
    [run] = runs_of(path, SCHEDULE)
    rows = _rows(run)
    lost, other = rows[30], rows[10]
    _write_row(run, 30, other | {"due_ms": lost["due_ms"]})
    return lost["sequence"], other["sequence"]


def hasten(path: Path) -> int:
    """The row of one message is due a minute before the message is; its sequence."""
    [run] = runs_of(path, SCHEDULE)
    rows = _rows(run)
    _write_row(run, 50, {"due_ms": rows[49]["due_ms"]})
    return rows[50]["sequence"]


def corrupt(path: Path, body: bytes = b"body 017") -> str:
    """One bit of a body in the log is another; the file."""
    [segment] = [one for one in (path / "log").iterdir() if body in one.read_bytes()]
    flip(segment, segment.read_bytes().index(body))
    return f"log/{segment.name}"


def _rows(run: Path) -> list[dict[str, int]]:
    """The rows, whatever else of the run does not fit them any more."""
    data = run.read_bytes()
    count = HEADER.read(data)["row_count"]
    return [SCHEDULE_ROW.read(data, _place(row)) for row in range(count)]


def _place(row: int) -> int:
    return (1 + row // BLOCK_ROWS) * BLOCK_BYTES + BLOCK.size + row % BLOCK_ROWS * SCHEDULE_ROW.size


def _write_row(run: Path, place: int, fields: dict[str, int]) -> None:
    start = (1 + place // BLOCK_ROWS) * BLOCK_BYTES
    at = _place(place)
    for name, value in fields.items():
        offset, size = _place_of(SCHEDULE_ROW, name)
        overwrite(run, at + offset, value.to_bytes(size, "little"))
    block = run.read_bytes()[start + 4 : start + BLOCK_BYTES]
    overwrite(run, start, crc32(block).to_bytes(4, "little"))


def _place_of(layout: Layout, wanted: str) -> tuple[int, int]:
    at = 0
    for name, size in layout.fields:
        if name == wanted:
            return at, size
        at += size
    raise KeyError(wanted)
