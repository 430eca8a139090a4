"""Making the files of a store what they must not be, and seeing that nobody touched them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypeVar

import pyarrow
import pytest

import delaymq
from delaymq import Message, Receipt, Store, StoreError, Subscription, _core
from format_reader.layout import FORMAT, crc32

SEGMENT_BYTES = 64 * 1024
BLOCK_BYTES = 4096

Kind = TypeVar("Kind", bound=StoreError)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(kind: type[Kind], folder: Path) -> Kind:
    """Opens the store, which must be refused so, with every file as it was."""
    before = contents(folder)
    with pytest.raises(kind) as caught:
        delaymq.open(folder)
    assert type(caught.value) is kind
    assert caught.value.store == str(folder)
    assert contents(folder) == before
    return caught.value


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int) -> None:
    """Turns one bit over."""
    overwrite(path, at, bytes([path.read_bytes()[at] ^ 0x10]))


def later_format(path: Path, start: int, format_at: int, check_at: int) -> None:
    """Writes the next format and the check that goes with it, over the bytes from `start` to the check."""
    data = bytearray(path.read_bytes())
    data[format_at : format_at + 4] = (FORMAT + 1).to_bytes(4, "little")
    data[check_at : check_at + 4] = crc32(bytes(data[start:check_at])).to_bytes(4, "little")
    path.write_bytes(data)


def place_of(folder: Path, needle: bytes) -> tuple[Path, int]:
    """The first file of the log that has these bytes, and where."""
    for path in sorted((folder / "log").glob("*.segment")):
        at = path.read_bytes().find(needle)
        if at >= 0:
            return path, at
    raise LookupError(needle)


def runs_of(folder: Path, kind: int) -> list[Path]:
    """The runs of a kind, 1 schedule and 2 dispatch, the oldest first."""
    paths = sorted((folder / "runs").glob("*.run"))
    return [path for path in paths if int.from_bytes(path.read_bytes()[12:16], "little") == kind]


def publish_all(store: Store, subject: str, bodies: list[bytes], delay: float = 0) -> list[Receipt]:
    """Publishes in batches that small segments take."""
    receipts: list[Receipt] = []
    for start in range(0, len(bodies), 40):
        receipts += store.publish_many(subject, bodies[start : start + 40], delay)
    return receipts


def one(messages: Subscription, seconds: float = 5) -> Message:
    message = messages.get(seconds)
    assert message is not None
    return message


def drain(messages: Subscription, seconds: float) -> list[bytes]:
    """The bodies of everything that comes, until nothing came for so long; all are acknowledged."""
    bodies = []
    while (message := messages.get(seconds)) is not None:
        bodies.append(message.body)
        message.ack()
    messages.flush(5)
    return bodies


def wait_until(check: Any, seconds: float = 20) -> None:
    """Waits for something that happens by itself."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


def until_told(store: Path, outcome: str, count: int, seconds: float = 20) -> None:
    """Until the log of an open store tells so many deliveries with this outcome: what is done is done before the fact
    that says so is written, and who reads without the lock, or copies the store, sees the fact alone.
    """

    def is_told() -> bool:
        with delaymq.snapshot(store) as snapshot:
            rows = pyarrow.table(snapshot.to_arrow_batches("deliveries", columns=["outcome"])).to_pylist()
        return [row["outcome"] for row in rows].count(outcome) == count

    wait_until(is_told, seconds)


def verified(folder: Path) -> dict[str, Any]:
    before = contents(folder)
    found = _core.verify(str(folder))
    assert contents(folder) == before
    return found
