"""Faults in the log and the state of a copy of a store: each as a bug would have written it, under checks that fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import delaymq
from crafting import one, overwrite, until_told
from delaymq.testing import Clock
from format_reader.batches import HEADER, read_batch
from format_reader.checkpoints import LAYOUT, read_checkpoint
from format_reader.layout import Layout, crc32
from format_reader.records import HEADER as RECORD
from format_reader.records import Record, mark
from format_reader.segments import HEADER_BYTES
from format_reader.segments import LAYOUT as SEGMENT


def taken_twice(path: Path) -> Path:
    """A copy of a store whose group has acknowledged five messages and holds the next five, before any checkpoint."""
    clock = Clock()
    with (
        delaymq.open(path.parent / "open", clock=clock, durability="os") as store,
        store.subscribe("orders", group="g", in_flight_max=5) as messages,
    ):
        store.publish_many("orders", [b"body %03d" % number for number in range(10)], 60)
        clock.advance(61)
        for _ in range(5):
            messages.ack([one(messages)])
        messages.flush(5)
        for _ in range(5):
            one(messages)
        until_told(path.parent / "open", "in_flight", 5)
        shutil.copytree(path.parent / "open", path)
    return path


def give_again(path: Path) -> None:
    """The last fact that gives numbers to a consumer gives those again which the first gave."""
    found = []
    for segment in sorted((path / "log").glob("*.segment")):
        data = bytearray(segment.read_bytes())
        stream = SEGMENT.bytes_of(bytes(data), "stream")
        found += [(segment, data, stream, *one) for one in _records(bytes(data), stream) if one[1].kind == "assign"]
    first, (segment, data, stream, at, last) = found[0][-1], found[-1]
    _write_payload(data, at, last, first.payload)
    _chain(data, stream)
    overwrite(segment, 0, bytes(data))


def cancelled(path: Path) -> Path:
    """A store in which messages were cancelled, and whose log is kept."""
    with delaymq.open(path, durability="os") as store:
        receipts = store.publish_many("orders", [b"body %03d" % number for number in range(20)], 3_600)
        store.cancel_many(receipts[:10])
        store.checkpoint()
    return path


def forget(path: Path, place: int) -> int:
    """Every checkpoint says that one message of the first window is nothing that it knows; its sequence."""
    sequence = 0
    for checkpoint in (path / "checkpoints").glob("*.checkpoint"):
        data = bytearray(checkpoint.read_bytes())
        read = read_checkpoint(bytes(data))
        for window in read["body"]["windows"][:1]:
            sequence = window["first"] + [at for at, one in enumerate(window["states"]) if one == "cancelled"][place]
            at = _words_of(bytes(data), window)
            bits = 2 * (sequence - window["first"])
            data[at + bits // 8] &= ~(3 << bits % 8) & 0xFF
        body = bytes(data[LAYOUT.size :])
        _set(data, LAYOUT, 0, digest=crc32(body[: read["logical_length"]]), body_check=crc32(body))
        _set(data, LAYOUT, 0, header_check=crc32(bytes(data[:60])))
        overwrite(checkpoint, 0, bytes(data))
    return sequence


def _words_of(data: bytes, window: dict[str, int]) -> int:
    head = b"".join(window[name].to_bytes(size, "little") for name, size in (("first", 8), ("length", 8), ("run", 4)))
    assert data.count(head) == 1
    return data.index(head) + len(head)


def _records(data: bytes, stream: bytes) -> list[tuple[int, Record]]:
    found, at = list[tuple[int, Record]](), HEADER_BYTES
    while data[at : at + 8] == b"DMQBATCH":
        batch = read_batch(data, at, stream)
        found += batch.records
        at = batch.end
    return found


def _write_payload(data: bytearray, at: int, record: Record, payload: bytes) -> None:
    header = RECORD.read(bytes(data), at)
    payload_at = at + RECORD.size + header["fixed_length"]
    data[payload_at : payload_at + len(payload)] = payload
    _set(data, RECORD, at, payload_check=crc32(payload))
    check = crc32(bytes(data[at : at + 12]), bytes(data[at + RECORD.size : payload_at])) ^ mark(record.sequence)
    _set(data, RECORD, at, header_check=check)


def _chain(data: bytearray, stream: bytes) -> None:
    """Makes each batch follow the one before it."""
    at, chain = HEADER_BYTES, None
    while data[at : at + 8] == b"DMQBATCH":
        header = HEADER.read(bytes(data), at)
        if chain is not None:
            _set(data, HEADER, at, chain_before=chain)
        chain = chain if chain is not None else header["chain_before"]
        checks, record_at = b"", at + HEADER.size
        for _ in range(header["record_count"]):
            record = RECORD.read(bytes(data), record_at)
            checks += record["header_check"].to_bytes(4, "little")
            record_at += (record["length"] + 7) // 8 * 8
        if checks:
            chain = crc32(stream, bytes(data[at + 8 : at + 48]), checks)
        _set(data, HEADER, at, chain=chain)
        _set(data, HEADER, at, header_check=crc32(bytes(data[at : at + 84])))
        at += header["length"]


def _set(data: bytearray, layout: Layout, at: int, **values: int) -> None:
    place = at
    for name, size in layout.fields:
        if name in values:
            data[place : place + size] = values[name].to_bytes(size, "little")
        place += size
