"""Checkpoints: all small state as of one position of the log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from format_reader.layout import FORMAT, Cursor, Layout, crc32, demand

LAYOUT = Layout(
    ("magic*", 8),
    ("format_version", 4),
    ("number", 4),
    ("stream*", 16),
    ("timeline", 4),
    ("digest", 4),
    ("body_length", 8),
    ("logical_length", 8),
    ("body_check", 4),
    ("header_check", 4),
)
MAGIC = b"DMQCHKPT"
STATES = ("nothing", "pending", "dispatched", "cancelled")

Row = dict[str, Any]


def read_checkpoint(data: bytes) -> Row:
    """The header's fields, and under `body` what the body says."""
    demand(data[:8] == MAGIC, 0, MAGIC, data[:8])
    header = LAYOUT.read(data)
    expected = crc32(data[:60])
    demand(header["header_check"] == expected, 60, hex(expected), hex(header["header_check"]))
    demand(header["format_version"] == FORMAT, 8, FORMAT, header["format_version"])
    body = data[LAYOUT.size :]
    demand(len(body) == header["body_length"], 40, header["body_length"], len(body))
    demand(crc32(body) == header["body_check"], 56, hex(crc32(body)), hex(header["body_check"]))
    digest = crc32(body[: header["logical_length"]])
    demand(digest == header["digest"], 36, hex(digest), hex(header["digest"]))
    return header | {
        "stream": LAYOUT.bytes_of(data, "stream"),
        "body": _body(body, header["logical_length"]),
    }


def _body(body: bytes, logical_length: int) -> Row:
    cursor = Cursor(body)
    read: Row = {"position": _position(cursor)}
    read |= _numbers(cursor, delay_ms_max=8, voided=8, next_group=4, next_consumer=4, next_run=4)
    read["epochs"] = _rows(cursor, _epoch)
    read["subjects"] = _rows(cursor, _subject)
    read["groups"] = _rows(cursor, _group)
    read["ended_groups"] = _rows(cursor, _ended_group)
    read["windows"] = _rows(cursor, _window)
    read["moves"] = _rows(cursor, _move)
    read["keys"] = _rows(cursor, _named)
    read["dispatched_keys"] = _numbers(cursor, window_ms=8, keys_max=4) | {"rows": _rows(cursor, _named_until)}
    read["ids"] = _rows(cursor, _named_until)
    read["series"] = _rows(cursor, _series)
    read["jobs"] = _rows(cursor, lambda at: {"job": at.pair()} | _numbers(at, base=8, count=8, adopted_ms=8))
    read["adopted"] = _rows(cursor, lambda at: _numbers(at, staged_ms=8) | {"nonce": at.take(16)})
    _demand_jobs(cursor, read)
    demand(cursor.offset == logical_length, cursor.offset, f"part 13 at {logical_length}", cursor.offset)
    read |= _numbers(cursor, feed_due_ms=8, feed_sequence=8, floor=4)
    read["segments"] = _rows(cursor, lambda at: _numbers(at, segment=4) | {"position": _position(at)})
    read["schedule_runs"] = _rows(cursor, _run)
    read["dispatch_runs"] = _rows(cursor, _run)
    read["minutes"] = _rows(cursor, lambda at: _numbers(at, minute=4, messages=8, bytes=8))
    read["ended"] = _rows(cursor, _ended)
    demand(len(read["ended"]) == len(read["windows"]), cursor.offset, len(read["windows"]), len(read["ended"]))
    for row in (*read["segments"], *read["schedule_runs"], *read["dispatch_runs"]):
        row["file_subjects"] = _file_subjects(cursor)
        if "segment" in row:
            row["ready"] = _segment_ready(cursor)
    read["holes"] = _rows(cursor, lambda at: {"from": _position(at), "to": _position(at)})
    _demand_holes(cursor, read)
    read["run_holes"] = _rows(cursor, lambda at: _numbers(at, run=4, begin=8, end=8))
    _demand_run_holes(cursor, read)
    read["loads"] = _rows(cursor, _load)
    _demand_loads(cursor, read)
    demand(cursor.at_end, cursor.offset, "the end", "more bytes")
    return read


def _demand_holes(cursor: Cursor, read: Row) -> None:
    """Within one segment each, in the order of the log, in what is kept and before the position."""
    for hole in read["holes"]:
        begin, end = hole["from"], hole["to"]
        segment, offset = begin["end"] >> 32, begin["end"] & 0xFFFF_FFFF
        is_in_order = begin["end"] < end["end"] and begin["next_sequence"] < end["next_sequence"]
        is_later = begin["epoch"] <= end["epoch"] and begin["trusted_ms"] <= end["trusted_ms"]
        is_whole = offset >= 4096 and begin["end"] % 8 == end["end"] % 8 == 0 and end["end"] >> 32 == segment
        is_kept = segment >= read["floor"] and end["end"] <= read["position"]["end"]
        demand(is_in_order and is_later and is_whole and is_kept, cursor.offset, "a hole", hole)
    for before, after in pairwise(read["holes"]):
        demand(before["to"]["end"] < after["from"]["end"], cursor.offset, "holes that do not touch", after)


def _demand_run_holes(cursor: Cursor, read: Row) -> None:
    """Within schedule runs that are named, by run and place, apart."""
    lengths = {run["number"]: run["length"] for run in read["schedule_runs"]}
    for hole in read["run_holes"]:
        is_whole = hole["begin"] % 8 == hole["end"] % 8 == 0 and 8192 <= hole["begin"] < hole["end"]
        is_within = hole["end"] < lengths.get(hole["run"], 0)
        demand(is_whole and is_within, cursor.offset, "a hole of a run", hole)
    for before, after in pairwise(read["run_holes"]):
        is_apart = (before["run"], before["end"]) < (after["run"], after["begin"])
        demand(is_apart, cursor.offset, "holes that do not touch", after)


def _demand_jobs(cursor: Cursor, read: Row) -> None:
    """In the order of the log, each job once; the names of staged runs ascend."""
    end = 0
    for job in read["jobs"]:
        is_behind = job["base"] >= end and job["count"] > 0
        end = job["base"] + job["count"]
        demand(is_behind and end <= read["position"]["next_sequence"], cursor.offset, f"a load behind {end}", job)
    names = [job["job"] for job in read["jobs"]]
    demand(len(set(names)) == len(names), cursor.offset, "each job once", names)
    adopted = [(name["staged_ms"], name["nonce"]) for name in read["adopted"]]
    demand(adopted == sorted(set(adopted)), cursor.offset, "names that ascend", adopted)


def _demand_loads(cursor: Cursor, read: Row) -> None:
    """Schedule runs that are named, by number."""
    numbers = {run["number"] for run in read["schedule_runs"]}
    for load in read["loads"]:
        is_known = load["base"] + load["rows"] <= read["position"]["next_sequence"]
        demand(load["run"] in numbers and is_known, cursor.offset, "a loaded run that is named", load)
    for before, after in pairwise(read["loads"]):
        demand(before["run"] < after["run"], cursor.offset, "loaded runs by number", after)


def _load(cursor: Cursor) -> Row:
    return _numbers(cursor, run=4, staged_ms=8) | {"nonce": cursor.take(16)} | _numbers(cursor, base=8, rows=8)


def _file_subjects(cursor: Cursor) -> list[int] | None:
    is_known = cursor.number(4)
    subjects = [cursor.number(4) for _ in range(cursor.number(8))]
    ascend = all(before < after for before, after in pairwise(subjects))
    demand(is_known < 2 and ascend and len(subjects) <= 1024 * is_known, cursor.offset, "subjects", subjects)
    return subjects if is_known else None


def _segment_ready(cursor: Cursor) -> Row:
    is_known = cursor.number(4)
    first = _rows(cursor, lambda at: _numbers(at, subject=4, number=8))
    subjects = [row["subject"] for row in first]
    ascend = all(before < after for before, after in pairwise(subjects))
    demand(is_known < 2 and ascend and len(first) <= 4096 * is_known, cursor.offset, "what became ready", first)
    files = [cursor.number(4) for _ in range(cursor.number(8))]
    demand(all(before < after for before, after in pairwise(files)), cursor.offset, "files that ascend", files)
    return {"first": first if is_known else None, "files": files}


def _numbers(cursor: Cursor, /, **sizes: int) -> Row:
    return {name: cursor.number(size) for name, size in sizes.items()}


def _rows(cursor: Cursor, read: Callable[[Cursor], Row]) -> list[Row]:
    return [read(cursor) for _ in range(cursor.number(8))]


def _text(cursor: Cursor) -> str:
    return cursor.text(cursor.number(8))


def _position(cursor: Cursor) -> Row:
    return _numbers(cursor, end=8, chain=4, next_sequence=8, epoch=4, trusted_ms=8)


def _epoch(cursor: Cursor) -> Row:
    return _numbers(cursor, epoch=4) | {"nonce": cursor.take(16)} | _numbers(cursor, first_sequence=8, previous_chain=4)


def _subject(cursor: Cursor) -> Row:
    row = _numbers(cursor, number=4) | {"name": _text(cursor)}
    row |= _numbers(cursor, next=8, finished_below=8, listed_from=8, gone_below=8)
    row["gone"] = _rows(cursor, lambda at: _numbers(at, first=8, end=8))
    return row | _numbers(cursor, ended_before=8, expired=8, expired_before_ms=8, pending=8)


def _group(cursor: Cursor) -> Row:
    row = _numbers(cursor, number=4, subject=4) | {"name": _text(cursor)}
    row |= _numbers(cursor, start=8, cursor=8, reserved_number=8, marked_below=8, again_below=8, offset_floor=8)
    row |= _numbers(cursor, consumer_ended_ms=8, done_below=8)
    row["done"] = _rows(cursor, lambda at: _numbers(at, first=8, end=8))
    row["returned"] = _rows(cursor, lambda at: _numbers(at, number=8, deliveries=4))
    row["consumers"] = _rows(cursor, _consumer)
    return row


def _consumer(cursor: Cursor) -> Row:
    row = _numbers(cursor, number=4) | {"name": _text(cursor)}
    row |= _numbers(cursor, next_offset=8, reserved_offset=8, bits=4, seen_ms=8)
    return row | {"held": _rows(cursor, lambda at: _numbers(at, offset=8, number=8, deliveries=4))}


def _ended_group(cursor: Cursor) -> Row:
    return _numbers(cursor, subject=4) | {"name": _text(cursor)} | _numbers(cursor, offset=8)


def _window(cursor: Cursor) -> Row:
    row = _numbers(cursor, first=8, length=8, run=4)
    length = row["length"]
    bits = int.from_bytes(cursor.take((length + 31) // 32 * 8), "little")
    demand(bits >> (2 * length) == 0, cursor.offset, "zero bits behind the last sequence", hex(bits))
    return row | {"states": [STATES[(bits >> (2 * place)) & 3] for place in range(length)]}


def _ended(cursor: Cursor) -> Row:
    row = _numbers(cursor, below=4, is_known=4)
    return row | {"cells": _rows(cursor, lambda at: _numbers(at, subject=4, minute=4, messages=8, bytes=8))}


def _move(cursor: Cursor) -> Row:
    row = _numbers(cursor, target=8, due_ms=8, sequence=8, how=4, delay_ms=8)
    how = row.pop("how")
    return row | {"is_relative": how & 1, "age_ms": how >> 1}


def _named(cursor: Cursor) -> Row:
    return {"name": cursor.pair()} | _numbers(cursor, due_ms=8, sequence=8, subject=4, size=4)


def _named_until(cursor: Cursor) -> Row:
    return _named(cursor) | _numbers(cursor, until_ms=8, noted=8)


def _series(cursor: Cursor) -> Row:
    row = _numbers(cursor, number=8, subject=4)
    row |= {"name": _text(cursor), "rule": _text(cursor), "zone": _text(cursor)}
    row |= _numbers(cursor, catch_up=1, on_expiry=3)
    row |= _numbers(cursor, expires_after_ms=8) if row["on_expiry"] else {}
    row |= _numbers(cursor, last_due_ms=8, pending_due_ms=8, pending_sequence=8)
    return row | {"meta": cursor.take(cursor.number(8)), "body": cursor.take(cursor.number(8))}


def _run(cursor: Cursor) -> Row:
    return _numbers(cursor, number=4, length=8, check=4, created_ms=8)
