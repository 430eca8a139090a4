"""What the second reader says of the facts of a log that are no messages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from format_reader.checkpoints import read_checkpoint
from format_reader.store import numbered
from tables.oracle import Row, moment
from tables.replaying import Replay

NAMES = (
    *("sequence", "epoch", "time", "kind", "subject", "group", "group_number", "consumer", "consumer_number"),
    *("first_number", "last_number", "first_offset", "last_offset", "count", "ranges", "target_sequence"),
    *("target_due", "target_subject", "published_sequence", "due", "delay_ms", "key", "attempt", "start", "name"),
    *("reason", "segment", "offset"),
)


def actions(folder: Path) -> list[Row]:
    """The table `action` of a store whose log has its first fact."""
    replay = Replay(folder)
    groups: dict[int, tuple[int, str]] = dict(replay.groups)
    consumers = {number: name for number, (group, name) in replay.consumers.items() if group in groups}
    for path in numbered(folder / "checkpoints", "checkpoint").values():
        for group in read_checkpoint(path.read_bytes())["body"]["groups"]:
            groups[group["number"]] = (group["subject"], group["name"])
            consumers |= {consumer["number"]: consumer["name"] for consumer in group["consumers"]}
    rows = []
    for placed in replay.batches:
        for offset, record in placed.batch.records:
            said = _said(record.kind, record.fields)
            if said is None:
                continue
            row: Row = dict.fromkeys(NAMES) | {
                "sequence": record.sequence,
                "epoch": placed.batch.header["epoch"],
                "time": moment(placed.batch.header["trusted_ms"]),
                "kind": record.kind,
                "segment": f"log/{placed.segment:010}.segment",
                "offset": offset,
            }
            group_of = groups.get(said.get("group_number") or 0)
            if group_of is not None:
                row |= {"subject": group_of[0], "group": group_of[1]}
            if said.get("consumer_number") in consumers:
                row["consumer"] = consumers[said["consumer_number"]]
            row |= said
            for name in ("subject", "target_subject"):
                row[name] = replay.names[row[name]] if row[name] else None
            rows.append(row)
    return rows


def _said(kind: str, fields: dict[str, Any]) -> Row | None:
    for told in (_of_entry, _of_party, _of_delivery, _of_order):
        row = told(kind, fields)
        if row is not None:
            return row
    return None


def _target(fields: dict[str, Any]) -> Row:
    if not fields["target_sequence"]:
        return {}
    return {"target_sequence": fields["target_sequence"], "target_due": moment(fields["target_due_ms"])}


def _held(fields: dict[str, Any]) -> Row:
    return {"group_number": fields["group"], "consumer_number": fields["consumer"]}


def _span(of: str, names: Collection[int]) -> Row:
    return {f"first_{of}": min(names, default=None), f"last_{of}": max(names, default=None)}


def _start(fields: dict[str, Any]) -> Row:
    """Where a group begins, with the ready number where that is at one."""
    numbers = {fields["start_number"]} if "start_number" in fields else set()
    return {"start": fields["start"]} | (_span("number", numbers) if numbers else {})


def _ranged(of: str, fields: dict[str, Any]) -> Row:
    ranges = [list(one) for one in fields["ranges"]]
    names = {int(number) for first, count in ranges for number in range(first, first + count)}
    return _span(of, names) | {"count": sum(count for _, count in ranges), "ranges": ranges}


def _of_entry(kind: str, fields: dict[str, Any]) -> Row | None:  # noqa: PLR0911 - one for each kind
    match kind:
        case "cancel":
            return _target(fields) | {"subject": fields["subject"]}
        case "move":
            said = {"subject": fields["subject"], "due": moment(fields["due_ms"]), "delay_ms": fields["delay_ms"]}
            return _target(fields) | said
        case "by_key":
            key = f"{fields['key'][1]:016x}{fields['key'][0]:016x}"
            said = {"kind": f"{fields['what']}_by_key", "subject": fields["subject"], "key": key}
            if fields["what"] == "move":
                said |= {"due": moment(fields["due_ms"]), "delay_ms": fields["delay_ms"]}
            return _target(fields) | said
        case "void":
            number = fields["number"]
            what = {"target_sequence": number} if fields["what"] else _span("number", {number})
            return {"subject": fields["subject"]} | what
        case "recur":
            if fields["what"] == "over":
                return {"kind": "recur_over", "target_sequence": fields["series"]}
            kind = "recur_end" if fields["what"] == "end" else "recur"
            return {"kind": kind, "subject": fields["subject"], "name": fields["name"]}
    return None


def _of_party(kind: str, fields: dict[str, Any]) -> Row | None:  # noqa: PLR0911 - one for each kind
    match kind:
        case "subject":
            return {"subject": fields["number"], "name": fields["name"]}
        case "group":
            return {"subject": fields["subject"], "group": fields["name"]} | _start(fields)
        case "group_end":
            kinds = {"alone": "group_end", "with_retries": "group_end_with_retries"}
            return {"group_number": fields["group"], "kind": kinds[fields["end"]]}
        case "group_reset":
            return {"group_number": fields["group"]} | _start(fields)
        case "consumer":
            return {"group_number": fields["group"], "consumer": fields["name"]}
        case "consumer_end":
            return _held(fields)
        case "attach":
            return {name: fields[name] for name in ("subject", "group", "consumer")} | _start(fields)
    return None


def _of_delivery(kind: str, fields: dict[str, Any]) -> Row | None:  # noqa: PLR0911 - one for each kind
    match kind:
        case "reserve":
            ends = {"last_offset": fields["offset_end"] or None, "last_number": fields["number_end"] or None}
            return _held(fields) | {name: end and end - 1 for name, end in ends.items()}
        case "assign":
            said, first = _ranged("number", fields), fields["first_offset"]
            return _held(fields) | said | _span("offset", range(first, first + said["count"]))
        case "acknowledge":
            return _held(fields) | _ranged("offset", fields) | ({"kind": "filter"} if fields["filtered"] else {})
        case "pass_over":
            return _held(fields) | _ranged("number", fields)
        case "retry":
            return _held(fields) | _of_retry(fields)
        case "redrive":
            return _span("number", {fields["number"]}) | {
                "group_number": fields["group"],
                "target_subject": fields["target"],
                "due": moment(fields["due_ms"]),
                "published_sequence": fields["payload_sequence"],
            }
        case "expire":
            by_themselves = fields["group"] > 0
            said = {"subject": fields["subject"], "due": None if by_themselves else moment(fields["due_before_ms"])}
            said |= {"group_number": fields["group"]} if by_themselves else {}
            return said | _ranged("number", fields)
    return None


def _of_retry(fields: dict[str, Any]) -> Row:
    kinds = {"again": "retry", "dead_letter": "dead_letter", "expired": "expired_dead_letter"}
    reasons = {"again": None, "dead_letter": fields["reason"], "expired": "expired"}
    return (
        _span("number", {fields["number"]})
        | _span("offset", {fields["offset"]})
        | {
            "kind": kinds[fields["destination"]],
            "reason": reasons[fields["destination"]],
            "target_subject": fields["target"],
            "due": moment(fields["due_ms"]),
            "attempt": fields["attempt"],
            "published_sequence": fields["payload_sequence"],
        }
    )


def _of_order(kind: str, fields: dict[str, Any]) -> Row | None:
    match kind:
        case "ready":
            return {"count": len(fields["entries"])}
        case "terms":
            return {"count": fields["messages"]}
        case "occurrence":
            return {"target_sequence": fields["series"], "target_due": moment(fields["after_ms"])}
        case "epoch_start":
            return {}
    return None
