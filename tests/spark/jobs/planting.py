"""Faults in a copy of a store, under checks that fit: each as a bug of the store would leave it."""

from __future__ import annotations

from pathlib import Path

import delaymq
from crafting import flip, overwrite, runs_of
from delaymq.testing import Clock
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


def given_back(path: Path) -> Path:
    """A store whose messages a group has given back, due again a minute after each other two hours later."""
    clock = Clock()
    with delaymq.open(path, clock=clock, durability="os") as store:
        with store.subscribe("orders", group="g") as messages:
            store.publish_many("orders", [b"body %03d" % number for number in range(20)], DELAY_S)
            clock.advance(DELAY_S + 1)
            for number in range(20):
                message = messages.get(10)
                assert message is not None
                message.nack(7_200 + 60 * number)
            messages.flush(5)
        store.checkpoint()
    return path


def lose_and_double(path: Path, place: int = 30, instead: int = 10) -> tuple[int, int]:
    """The row of one message names another instead; the sequences of what is lost and of what is twice there."""
    [run] = runs_of(path, SCHEDULE)
    rows = _rows(run)
    lost, other = rows[place], rows[instead]
    _write_row(run, place, other | {"due_ms": lost["due_ms"]})
    return lost["payload_sequence"], other["payload_sequence"]


def hasten(path: Path, place: int = 50) -> int:
    """The row of one message is due a minute before the message is; its sequence."""
    [run] = runs_of(path, SCHEDULE)
    rows = _rows(run)
    _write_row(run, place, {"due_ms": rows[place - 1]["due_ms"]})
    return rows[place]["payload_sequence"]


def delay(path: Path, place: int) -> int:
    """The row of one message is due a minute after the message is; its sequence."""
    [run] = runs_of(path, SCHEDULE)
    row = _rows(run)[place]
    _write_row(run, place, {"due_ms": row["due_ms"] + 60_000})
    return row["payload_sequence"]


def make_due_long_ago(path: Path) -> int:
    """The row of the first message is due five hours before the message is; its sequence."""
    [run] = runs_of(path, SCHEDULE)
    row = _rows(run)[0]
    _write_row(run, 0, {"due_ms": row["due_ms"] - 5 * 3_600_000})
    return row["payload_sequence"]


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
