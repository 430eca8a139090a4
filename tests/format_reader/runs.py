"""Runs: rows in blocks, copied payloads, a footer, a trailer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from format_reader.layout import FORMAT, DamagedError, Layout, crc32, demand, location, padded
from format_reader.records import Record, read_record

BLOCK_BYTES = 4096
GROUP_BLOCKS = 4
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
MINUTE_MAX = 2**32 - 1
SCHEDULE, DISPATCH, STAGED = 1, 2, 3

HEADER = Layout(
    ("magic*", 8),
    ("format", 4),
    ("kind", 4),
    ("number", 4),
    ("reserved", 4),
    ("stream*", 16),
    ("row_count", 8),
    ("payload_start", 8),
)
CELL_BLOCK = Layout(
    ("check", 4), ("count", 2), ("used_bytes", 2), ("run", 4), ("index", 4), ("subject", 4), ("minute", 4)
)
BLOCK = Layout(("check", 4), ("count", 2), ("row_bytes", 2), ("index", 4), ("run", 4))
SCHEDULE_ROW = Layout(
    ("due_ms", 8),
    ("sequence", 8),
    ("payload_sequence", 8),
    ("location", 8),
    ("subject", 4),
    ("attempt", 2),
    ("reserved", 2),
    ("length", 4),
    ("size_and_one", 4),
)
DISPATCH_ROW = Layout(
    ("subject", 4),
    ("attempt", 2),
    ("reserved", 2),
    ("number", 8),
    ("sequence", 8),
    ("payload_sequence", 8),
    ("location", 8),
    ("due_ms", 8),
)
FOOTER = Layout(
    ("kind", 4),
    ("number", 4),
    ("stream*", 16),
    ("row_count", 8),
    ("payload_start", 8),
    ("payload_bytes", 8),
    ("first_sequence", 8),
    ("last_sequence", 8),
    ("fence_count", 4),
    ("reference_count", 4),
    ("bucket_count", 4),
    ("subject_count", 4),
)
TRAILER = Layout(
    ("footer_offset", 8),
    ("footer_bytes", 8),
    ("footer_check", 4),
    ("reserved", 4),
    ("format", 4),
    ("check", 4),
    ("magic*", 8),
)
STAGED_TAIL = Layout(("contents", 4), ("name_count", 4))
ROWS = {SCHEDULE: SCHEDULE_ROW, DISPATCH: DISPATCH_ROW, STAGED: SCHEDULE_ROW}
BLOCK_ROWS = (BLOCK_BYTES - BLOCK.size) // SCHEDULE_ROW.size


@dataclass(frozen=True)
class Run:
    """One run, read whole."""

    header: dict[str, int]
    footer: dict[str, Any]
    rows: list[dict[str, int]] = field(repr=False)
    payloads: dict[int, Record] = field(repr=False)
    """The copied records, by the sequence of their row's entry; those in holes are not among them."""
    length: int
    check: int


def key_of(kind: int, row: dict[str, int]) -> tuple[int, int]:
    """What the rows of a run are sorted by."""
    return (row["subject"], row["number"]) if kind == DISPATCH else (row["due_ms"], row["sequence"])


def read_run(data: bytes, holes: Sequence[tuple[int, int]] = ()) -> Run:
    """Reads every byte of a run, but for payloads in holes, and proves that its parts agree.

    Args:
        holes: Where each hole begins and ends, in order.
    """
    trailer, footer = read_footer(data)
    header = _header(data, footer)
    blocks = (header["row_count"] + BLOCK_ROWS - 1) // BLOCK_ROWS
    start = (1 + blocks) * BLOCK_BYTES
    demand(header["payload_start"] == start, 48, start, header["payload_start"])
    rows = [row for index in range(blocks) for row in _block(data, header, index)]
    _demand_footer_of(footer, header["kind"], rows, trailer["footer_offset"])
    _demand_cells(data, header, footer, rows)
    payloads = {} if header["kind"] == DISPATCH else _payloads(data, header, footer, rows, holes)
    if header["kind"] == STAGED:
        _demand_staged(data, header, footer, rows, payloads)
    return Run(header, footer, rows, payloads, len(data), trailer["footer_check"])


def read_footer(data: bytes) -> tuple[dict[str, int], dict[str, Any]]:
    """The trailer and the footer that it points to: what opening needs."""
    at = len(data) - TRAILER.size
    demand(at >= 0, 0, "a trailer", f"{len(data)} bytes")
    trailer = TRAILER.read(data, at)
    magic = TRAILER.bytes_of(data, "magic", at)
    demand(magic == b"DMQRUNEN", at + 32, b"DMQRUNEN", magic)
    expected = crc32(data[at : at + 28])
    demand(trailer["check"] == expected, at + 28, hex(expected), hex(trailer["check"]))
    demand(trailer["format"] == FORMAT, at + 24, FORMAT, trailer["format"])
    start = trailer["footer_offset"]
    demand(start + trailer["footer_bytes"] == at, at, f"a footer up to {at}", start + trailer["footer_bytes"])
    expected = crc32(data[start:at])
    demand(trailer["footer_check"] == expected, at + 16, hex(expected), hex(trailer["footer_check"]))
    return trailer, _footer(data[start:at])


def _footer(data: bytes) -> dict[str, Any]:
    footer: dict[str, Any] = FOOTER.read(data) | {"stream": FOOTER.bytes_of(data, "stream")}
    at = FOOTER.size
    # A schedule run counts blocks of cells where a dispatch run counts subjects.
    last = ("subject", 4) if footer["kind"] == DISPATCH else ("cell", 3)
    footer |= {"cell_count": footer["subject_count"]} if last[0] == "cell" else {}
    footer |= {"cells": [], "subjects": []}
    for name, words in (("fence", 2), ("reference", 2), ("bucket", 3), last):
        table = Layout(*((str(word), 8) for word in range(words)))
        count = footer.pop(f"{name}_count")
        footer[f"{name}s"] = [tuple(table.read(data, at + row * table.size).values()) for row in range(count)]
        at += count * table.size
    footer.pop("subject_count", None)
    if footer["kind"] == STAGED:
        footer |= STAGED_TAIL.read(data, at)
        at += STAGED_TAIL.size
        footer["names"] = []
        for _ in range(footer.pop("name_count")):
            size = int.from_bytes(data[at : at + 2], "little")
            footer["names"].append(data[at + 2 : at + 2 + size].decode())
            at += 2 + size
    demand(at == len(data), at, "the footer's end", len(data))
    return footer


def _header(data: bytes, footer: dict[str, Any]) -> dict[str, int]:
    header = HEADER.read(data)
    demand(data[:8] == b"DMQRUN__", 0, b"DMQRUN__", data[:8])
    expected, found = crc32(data[:4092]), int.from_bytes(data[4092:4096], "little")
    demand(found == expected, 4092, hex(expected), hex(found))
    demand(header["format"] == FORMAT, 8, FORMAT, header["format"])
    demand(not any(data[HEADER.size : 4092]), HEADER.size, "zeros", "other bytes")
    for name in ("kind", "number", "row_count", "payload_start"):
        demand(header[name] == footer[name], 0, f"{name} {footer[name]}", header[name])
    demand(HEADER.bytes_of(data, "stream") == footer["stream"], 24, footer["stream"], data[24:40])
    demand(header["row_count"] > 0, 40, "rows", 0)
    return header


def _block(data: bytes, header: dict[str, int], index: int) -> list[dict[str, int]]:
    at = (1 + index) * BLOCK_BYTES
    block = BLOCK.read(data, at)
    expected = crc32(data[at + 4 : at + BLOCK_BYTES])
    demand(block["check"] == expected, at, hex(expected), hex(block["check"]))
    count = min(BLOCK_ROWS, header["row_count"] - index * BLOCK_ROWS)
    found = (block["count"], block["row_bytes"], block["index"], block["run"])
    demand(found == (count, 48, index, header["number"]), at + 4, (count, 48, index, header["number"]), found)
    layout = ROWS[header["kind"]]
    end = at + BLOCK.size + count * layout.size
    demand(not any(data[end : at + BLOCK_BYTES]), end, "zeros", "other bytes")
    return [layout.read(data, at + BLOCK.size + row * layout.size) for row in range(count)]


def _demand_footer_of(footer: dict[str, Any], kind: int, rows: list[dict[str, int]], footer_offset: int) -> None:
    """What the footer says must be what the rows say."""
    keys = [key_of(kind, row) for row in rows]
    demand(all(before < after for before, after in pairwise(keys)), 0, "ascending keys", "others")
    references: dict[int, int] = {}
    for row in rows:
        references[row["location"] >> 32] = references.get(row["location"] >> 32, 0) + 1
    sequences = [row["sequence"] for row in rows]
    said = {
        "first_sequence": min(sequences),
        "last_sequence": max(sequences),
        "fences": keys[:: GROUP_BLOCKS * BLOCK_ROWS],
        "references": sorted(references.items()),
        "buckets": [] if kind == DISPATCH else _buckets(rows),
        "subjects": _subjects(rows) if kind == DISPATCH else [],
        "payload_bytes": footer_offset - footer["payload_start"] - BLOCK_BYTES * len(footer["cells"]),
    }
    # Files with 0 rows are held for what they say of dead letters, not for payloads.
    found = footer | {"references": [(file, rows) for file, rows in footer["references"] if rows]}
    for name, expected in said.items():
        demand(found[name] == expected, footer_offset, f"{name} {expected}", found[name])


def _demand_cells(data: bytes, header: dict[str, int], footer: dict[str, Any], rows: list[dict[str, int]]) -> None:
    """The cells of a schedule run must be what its rows say."""
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows if header["kind"] != DISPATCH else []:
        key = (row["subject"], min(row["due_ms"] // MINUTE_MS, MINUTE_MAX))
        messages, size = expected.get(key, (0, 0))
        expected[key] = (messages + 1, size + max(row["size_and_one"] - 1, 0))
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    start = footer["payload_start"] + footer["payload_bytes"]
    for index, fence in enumerate(footer["cells"]):
        found += _cell_block(data[start + index * BLOCK_BYTES :][:BLOCK_BYTES], header["number"], index, fence, start)
    demand(found == sorted(expected.items()), start, "the cells of the rows", "others")


def _cell_block(
    block: bytes, run: int, index: int, fence: tuple[int, int, int], at: int
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    head = CELL_BLOCK.read(block)
    demand(head["check"] == crc32(block[4:]), at, hex(crc32(block[4:])), hex(head["check"]))
    said = (head["run"], head["index"], head["subject"], head["minute"], head["count"])
    demand(said == (run, index, *fence), at, (run, index, *fence), said)
    end = CELL_BLOCK.size + head["used_bytes"]
    demand(not any(block[end:]), at, "zeros", "other bytes")
    numbers = list(_numbers(block[CELL_BLOCK.size : end]))
    demand(len(numbers) == 4 * head["count"], at, f"{head['count']} cells", len(numbers))
    cells = []
    subject, minute = head["subject"], head["minute"]
    for place in range(0, len(numbers), 4):
        subjects, minutes, messages, size = numbers[place : place + 4]
        subject, minute = subject + subjects, minutes if subjects else minute + minutes
        cells.append(((subject, minute), (messages, size)))
    return cells


def _numbers(data: bytes) -> Iterator[int]:
    """Numbers of seven bits to a byte, the lowest first."""
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0


def _demand_staged(
    data: bytes,
    header: dict[str, int],
    footer: dict[str, Any],
    rows: list[dict[str, int]],
    payloads: dict[int, Record],
) -> None:
    """Rows of a staged run have their places as sequences, names by text, and one digest covers all of it."""
    demand(header["number"] == 0, 16, "number 0", header["number"])
    checks = b""
    for place, row in enumerate(rows):
        found = (row["sequence"], row["payload_sequence"], row["attempt"], location(row["location"])[:2])
        demand(found == (place, place, 1, ("run", 0)), 0, f"row {place}", found)
        record = payloads[place]
        said = {name: record.fields[name] for name in ("due_ms", "subject", "published_ms", "opaque")}
        expected = {"due_ms": row["due_ms"], "subject": row["subject"], "published_ms": 0, "opaque": True}
        demand(said == expected, 0, expected, said)
        demand(len(record.fields["body"]) == row["size_and_one"] - 1, 0, "the size of the body", row["size_and_one"])
        at = location(row["location"])[2]
        checks += data[at + 12 : at + 16]
    for at in range(BLOCK_BYTES, header["payload_start"], BLOCK_BYTES):
        checks += data[at : at + 4]
    demand(footer["contents"] == crc32(checks), footer["payload_start"], hex(crc32(checks)), hex(footer["contents"]))
    names = footer["names"]
    used = sorted({row["subject"] for row in rows})
    demand(used == list(range(1, len(names) + 1)), 0, "names that rows have", used)
    demand(len(set(names)) == len(names), 0, "each name once", names)


def _buckets(rows: list[dict[str, int]]) -> list[tuple[int, int, int]]:
    hours: dict[int, tuple[int, int]] = {}
    for row in rows:
        start = row["due_ms"] // HOUR_MS * HOUR_MS
        count, size = hours.get(start, (0, 0))
        hours[start] = (count + 1, size + row["length"])
    return [(start, count, size) for start, (count, size) in hours.items()]


def _subjects(rows: list[dict[str, int]]) -> list[tuple[int, int, int, int]]:
    numbers: dict[int, list[int]] = {}
    for row in rows:
        numbers.setdefault(row["subject"], []).append(row["number"])
    return [(subject, len(found), min(found), max(found)) for subject, found in numbers.items()]


def _payloads(
    data: bytes,
    header: dict[str, int],
    footer: dict[str, Any],
    rows: list[dict[str, int]],
    holes: Sequence[tuple[int, int]],
) -> dict[int, Record]:
    payloads = {}
    at = header["payload_start"]
    end = at + footer["payload_bytes"]
    area = data[:end]
    borders = {at}
    for row in rows:
        file = location(row["location"])
        if file[:2] != ("run", header["number"]):
            demand(row["length"] == 0, at, "no length of a record that lies elsewhere", row["length"])
            continue
        demand(file[2] == at, at, f"the record of {row['sequence']}", file[2])
        if not any(begin <= at < behind for begin, behind in holes):
            payloads[row["sequence"]] = _payload(area, at, row)
        at += padded(row["length"])
        borders.add(at)
    demand(at == end, at, f"the end of the payload area at {end}", at)
    for hole in holes:
        demand(borders.issuperset(hole), hole[0], "a hole of whole records", hole)
    return payloads


def _payload(area: bytes, at: int, row: dict[str, int]) -> Record:
    record = read_record(area, at, row["payload_sequence"])
    demand(record.length == row["length"], at, row["length"], record.length)
    if not record.payload_is_whole:
        raise DamagedError(at, "a whole payload", "another check")
    return record
