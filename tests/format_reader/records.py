"""Records: header, fixed part by kind, payload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from format_reader.layout import U32_MASK, Cursor, DamagedError, Layout, crc32, demand, padded

HEADER = Layout(
    ("length", 4), ("kind", 1), ("flags", 1), ("fixed_length", 2), ("payload_check", 4), ("header_check", 4)
)
LENGTH_MAX = 16 * 1024 * 1024
FLAG_OPAQUE = 8
FLAG_EXPIRES = 16
FLAG_DIES = 32
FLAG_FILTERED = 1
FLAG_RECEIVED = 1
ON_EXPIRY = ("drop", "dead_letter")
EXPIRES = Layout(("expires_ms", 8))
EXPIRES_AFTER = Layout(("expires_after_ms", 8))
NAMES = Layout(("first", 4), ("second", 4))
READY_ENTRY = Layout(("due_ms", 8), ("sequence", 8), ("subject", 4), ("reserved", 4))
RANGES = Layout(("group", 4), ("consumer", 4), ("first_offset", 8))
STARTS = {0: "unfinished", 1: "latest", 2: "number"}

RETRY = Layout(
    ("group", 4),
    ("consumer", 4),
    ("offset", 8),
    ("number", 8),
    ("due_ms", 8),
    ("target", 4),
    ("attempt", 4),
    ("payload_sequence", 8),
    ("destination", 4),
    ("size", 4),
)
CANCEL = Layout(("target_due_ms", 8), ("target_sequence", 8), ("subject", 4), ("size", 4))
MOVE = Layout(("target_due_ms", 8), ("target_sequence", 8), ("due_ms", 8), ("delay_ms", 8), ("subject", 4), ("size", 4))
FLAG_RELATIVE = 1
DESTINATIONS = {0: "again", 1: "dead_letter", 2: "expired"}
REASON_BYTES_MAX = 1_024
TERMS_ROW_BYTES = 40
ADOPT_ROW_BYTES = 40
LOAD_RUNS_MAX = 4_096
LOAD_ROWS_MAX = 1 << 28
MOVE_BY_DELAY = 2
Pair = tuple[int, int]
NO_NAME = (0, 0)
RECURS = ("replace", "keep", "refuse", "end", "over")
CATCH_UPS = ("one", "skip", "all")
ENDS = {0: "alone", 1: "with_retries"}

KINDS: dict[int, tuple[str, Layout]] = {
    1: ("message", Layout(("due_ms", 8), ("published_ms", 8), ("subject", 4), ("meta_length", 4))),
    2: ("cancel", CANCEL),
    3: ("move", MOVE),
    4: ("ready", Layout(("count", 4), ("reserved", 4))),
    5: ("subject", NAMES),
    6: ("group", NAMES),
    7: ("group_end", NAMES),
    8: ("consumer", NAMES),
    9: ("consumer_end", NAMES),
    10: ("reserve", Layout(("group", 4), ("consumer", 4), ("offset_end", 8), ("number_end", 8))),
    11: ("assign", RANGES),
    12: ("acknowledge", RANGES),
    13: ("retry", RETRY),
    14: ("void", Layout(("subject", 4), ("what", 4), ("number", 8))),
    15: (
        "epoch_start",
        Layout(
            ("epoch", 4),
            ("format_version", 4),
            ("nonce*", 16),
            ("node*", 16),
            ("previous_epoch", 4),
            ("previous_chain", 4),
            ("previous_sequence", 8),
            ("delay_ms_max", 8),
        ),
    ),
    16: ("adopt", Layout(("job_low", 8), ("job_high", 8), ("rows", 4), ("runs", 4))),
    17: ("redrive", Layout(("group", 4), ("target", 4), ("number", 8), ("due_ms", 8), ("payload_sequence", 8))),
    18: ("expire", Layout(("subject", 4), ("group", 4), ("due_before_ms", 8))),
    19: ("group_reset", NAMES),
    20: ("attach", Layout(("subject", 4), ("start", 4), ("block", 4), ("group_length", 4), ("broadcast", 4))),
    21: ("terms", Layout(("messages", 4), ("keys_max", 4), ("ids_max", 4), ("reserved", 4), ("id_window_ms", 8))),
    22: (
        "by_key",
        Layout(
            *(("key_low", 8), ("key_high", 8), ("due_ms", 8), ("delay_ms", 8)),
            *(("target_due_ms", 8), ("target_sequence", 8), ("what", 4), ("subject", 4)),
        ),
    ),
    23: (
        "recur",
        Layout(
            *(("after_ms", 8), ("series", 8), ("subject", 4), ("what", 4), ("catch_up", 4)),
            *(("name_length", 4), ("rule_length", 4), ("zone_length", 4), ("meta_length", 4), ("on_expiry", 4)),
        ),
    ),
    24: ("occurrence", Layout(("series", 8), ("after_ms", 8))),
    25: ("pass_over", RANGES),
}


@dataclass(frozen=True)
class Record:
    """One fact: its sequence, its kind's name and what it says."""

    sequence: int
    kind: str
    fields: dict[str, Any]
    length: int
    header_check: int
    payload_is_whole: bool
    payload: bytes = field(repr=False)

    @property
    def taken(self) -> int:
        """Bytes that it takes where it stands."""
        return padded(self.length)


def mark(sequence: int) -> int:
    """What a sequence adds to the header check."""
    return ((sequence & U32_MASK) * 0x9E3779B1 & U32_MASK) ^ (sequence >> 32)


def read_record(data: bytes, offset: int, sequence: int) -> Record:
    """The record at `offset`, proven to have this sequence. A damaged payload is told, not refused."""
    header = HEADER.read(data, offset)
    fixed_at = offset + HEADER.size
    payload_at = fixed_at + header["fixed_length"]
    end = offset + header["length"]
    demand(payload_at <= end <= offset + LENGTH_MAX, offset, "a record's length", header["length"])
    demand(end <= len(data), offset, f"{header['length']} bytes", f"{len(data) - offset} bytes")
    fixed, payload = data[fixed_at:payload_at], data[payload_at:end]
    expected = crc32(data[offset : offset + 12], fixed) ^ mark(sequence)
    demand(header["header_check"] == expected, offset + 12, hex(expected), hex(header["header_check"]))
    padding = data[end : offset + padded(header["length"])]
    demand(not any(padding), end, "zero padding", padding.hex())
    whole = crc32(payload) == header["payload_check"]
    name, fields = _fields(header, fixed, payload, whole=whole, offset=offset)
    return Record(sequence, name, fields, header["length"], header["header_check"], whole, payload)


def _fields(
    header: dict[str, int], fixed: bytes, payload: bytes, *, whole: bool, offset: int
) -> tuple[str, dict[str, Any]]:
    name, layout = _kind(header["kind"], offset)
    fields: dict[str, Any] = dict(layout.read(fixed))
    fields |= _expiry(name, header["flags"], fields, fixed[layout.size :])
    if not whole:
        demand(name == "message", offset + 8, "a whole payload", "another check")
        return name, fields
    if name == "message":
        fields |= _message(header["flags"], fields.pop("meta_length"), payload)
    elif name == "ready":
        fields = {"entries": _entries(fields["count"], payload, offset)}
    elif name in {"assign", "acknowledge", "pass_over", "expire"}:
        fields["ranges"] = _pairs(payload)
        fields |= _flagged(name, header["flags"], fields)
    elif layout is RETRY:
        fields |= _destination(fields.pop("destination"), payload, offset)
        fields["received"] = fields["destination"] == "expired" and bool(header["flags"] & FLAG_RECEIVED)
    elif name == "move" and not header["flags"] & FLAG_RELATIVE:
        fields["delay_ms"] = None
    elif name in SHAPES:
        fields = SHAPES[name](fields, payload, offset)
    elif layout is NAMES:
        fields = _names(name, fields["first"], fields["second"], payload)
    elif name == "epoch_start":
        fields |= {"nonce": layout.bytes_of(fixed, "nonce"), "node": layout.bytes_of(fixed, "node")}
    fields.pop("reserved", None)
    return name, fields


def _expiry(name: str, flags: int, fields: dict[str, Any], rest: bytes) -> dict[str, Any]:
    """The last fields of a message that expires, and of a series whose messages expire."""
    if name == "message" and flags & FLAG_EXPIRES:
        return EXPIRES.read(rest) | {"on_expiry": ON_EXPIRY[bool(flags & FLAG_DIES)]}
    return EXPIRES_AFTER.read(rest) if name == "recur" and fields["on_expiry"] else {}


def _flagged(name: str, flags: int, fields: dict[str, Any]) -> dict[str, Any]:
    """What the flags of facts with ranges say."""
    if name == "acknowledge":
        return {"filtered": bool(flags & FLAG_FILTERED)}
    if name == "expire":
        return {"received": bool(fields["group"] and flags & FLAG_RECEIVED)}
    return {}


def _kind(kind: int, offset: int) -> tuple[str, Layout]:
    if kind not in KINDS:
        raise DamagedError(offset + 4, "a known kind", kind)
    return KINDS[kind]


def _entries(count: int, payload: bytes, offset: int) -> list[tuple[int, int, int]]:
    size = READY_ENTRY.size
    demand(len(payload) == count * size, offset, f"{count} entries", f"{len(payload)} bytes")
    rows = [READY_ENTRY.read(payload, place * size) for place in range(count)]
    return [(row["due_ms"], row["sequence"], row["subject"]) for row in rows]


def _attach(fields: dict[str, Any], payload: bytes, _offset: int) -> dict[str, Any]:
    cursor = Cursor(payload)
    start = _start(cursor, fields.pop("start"))
    group = cursor.text(fields.pop("group_length"))
    return fields | {
        **start,
        "is_broadcast": bool(fields.pop("broadcast")),
        "group": group,
        "consumer": cursor.text(len(payload) - cursor.offset),
    }


def _terms(fields: dict[str, Any], payload: bytes, offset: int) -> dict[str, Any]:
    demand(len(payload) % TERMS_ROW_BYTES == 0, offset, f"rows of {TERMS_ROW_BYTES} bytes", f"{len(payload)} bytes")
    cursor = Cursor(payload)
    rows: list[tuple[int, Pair | None, Pair | None, int]] = []
    for _ in range(len(payload) // TERMS_ROW_BYTES):
        key, name, place, if_exists = cursor.pair(), cursor.pair(), cursor.number(4), cursor.number(4)
        rows.append((place, None if key == NO_NAME else key, None if name == NO_NAME else name, if_exists))
    return fields | {"rows": rows}


def _adopt(fields: dict[str, Any], payload: bytes, offset: int) -> dict[str, Any]:
    count = fields["runs"]
    demand(1 <= count <= LOAD_RUNS_MAX, offset, f"1 to {LOAD_RUNS_MAX} runs", count)
    demand(len(payload) == count * ADOPT_ROW_BYTES, offset, f"{count} runs", f"{len(payload)} bytes")
    cursor = Cursor(payload)
    runs = [
        (cursor.number(8), cursor.take(16), cursor.number(8), cursor.number(4), cursor.number(4)) for _ in range(count)
    ]
    rows = [rows for *_, rows in runs]
    is_whole = sum(rows) == fields["rows"] <= LOAD_ROWS_MAX and min(rows) > 0
    demand(is_whole, offset, f"{fields['rows']} rows in runs that have some", rows)
    return {"job": (fields["job_low"], fields["job_high"]), "rows": fields["rows"], "runs": runs}


def _by_key(fields: dict[str, Any], _payload: bytes, _offset: int) -> dict[str, Any]:
    what = fields["what"]
    return {
        "key": (fields["key_low"], fields["key_high"]),
        "subject": fields["subject"],
        "target_due_ms": fields["target_due_ms"],
        "target_sequence": fields["target_sequence"],
        "due_ms": fields["due_ms"],
        "delay_ms": fields["delay_ms"] if what == MOVE_BY_DELAY else None,
        "what": "move" if what else "cancel",
    }


def _recur(fields: dict[str, Any], payload: bytes, offset: int) -> dict[str, Any]:
    what = fields["what"]
    demand(what < len(RECURS), offset, RECURS, what)
    cursor = Cursor(payload)
    name, rule, zone = (cursor.text(fields[f"{part}_length"]) for part in ("name", "rule", "zone"))
    meta = cursor.take(fields["meta_length"])
    if RECURS[what] == "over":
        return {"what": "over", "series": fields["series"]}
    if RECURS[what] == "end":
        return {"what": "end", "subject": fields["subject"], "name": name}
    said = {"what": RECURS[what], "subject": fields["subject"], "name": name, "rule": rule, "zone": zone}
    catch_up = CATCH_UPS[fields["catch_up"]]
    body = cursor.take(len(payload) - cursor.offset)
    if fields["on_expiry"]:
        demand(fields["on_expiry"] <= len(ON_EXPIRY), offset, ON_EXPIRY, fields["on_expiry"])
        said |= {"on_expiry": ON_EXPIRY[fields["on_expiry"] - 1], "expires_after_ms": fields["expires_after_ms"]}
    return said | {"catch_up": catch_up, "after_ms": fields["after_ms"], "meta": meta, "body": body}


SHAPES: dict[str, Callable[[dict[str, Any], bytes, int], dict[str, Any]]] = {
    "attach": _attach,
    "terms": _terms,
    "adopt": _adopt,
    "by_key": _by_key,
    "recur": _recur,
}


def _destination(number: int, payload: bytes, offset: int) -> dict[str, Any]:
    demand(number in DESTINATIONS, offset, DESTINATIONS, number)
    longest = REASON_BYTES_MAX if DESTINATIONS[number] == "dead_letter" else 0
    demand(len(payload) <= longest, offset, f"a reason of at most {longest} bytes", f"{len(payload)} bytes")
    return {"destination": DESTINATIONS[number], "reason": payload.decode("utf-8")}


def _message(flags: int, meta_length: int, payload: bytes) -> dict[str, Any]:
    meta, body = payload[:meta_length], payload[meta_length:]
    demand(len(meta) == meta_length, 0, f"{meta_length} bytes of meta", f"{len(meta)} bytes")
    fields: dict[str, Any] = {"opaque": bool(flags & FLAG_OPAQUE), "body": body}
    return fields | read_meta(meta) if flags & FLAG_OPAQUE else fields


def read_meta(meta: bytes) -> dict[str, Any]:
    """Id, tags and attributes of an opaque message."""
    if not meta:
        return {"message_id": "", "tags": [], "attributes": []}
    cursor = Cursor(meta)
    message_id = cursor.text(cursor.number(2))
    tags = [cursor.text(cursor.number(1)) for _ in range(cursor.number(1))]
    attributes = [(cursor.text(cursor.number(2)), cursor.take(cursor.number(4))) for _ in range(cursor.number(2))]
    demand(cursor.at_end, cursor.offset, "the end of meta", "more bytes")
    return {"message_id": message_id, "tags": tags, "attributes": attributes}


def _start(cursor: Cursor, start: int) -> dict[str, Any]:
    """Where a group begins; the payload begins with the number of a start at a number."""
    word = STARTS[start]
    return {"start": word} | ({"start_number": cursor.number(8)} if word == "number" else {})


def _names(name: str, first: int, second: int, payload: bytes) -> dict[str, Any]:
    cursor = Cursor(payload)
    start = _start(cursor, second) if name in {"group", "group_reset"} else {}
    text = cursor.text(len(payload) - cursor.offset)
    match name:
        case "subject":
            return {"number": first, "name": text}
        case "group":
            return {"subject": first, "name": text} | start
        case "group_end":
            return {"group": first, "end": ENDS[second]}
        case "group_reset":
            return {"group": first} | start
        case "consumer":
            return {"group": first, "name": text}
        case _:
            return {"group": first, "consumer": second}


def _pairs(payload: bytes) -> list[tuple[int, int]]:
    demand(len(payload) % 16 == 0, 0, "pairs of 16 bytes", f"{len(payload)} bytes")
    cursor = Cursor(payload)
    return [(cursor.number(8), cursor.number(8)) for _ in range(len(payload) // 16)]
