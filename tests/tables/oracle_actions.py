"""What the second reader says of the facts of a log that are no messages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from format_reader.checkpoints import read_checkpoint
from format_reader.store import numbered
from tables.oracle import Row, moment
from tables.replaying import Replay

NAMES = ("sequence", "epoch", "time", "kind", "subject", "group", "group_number", "consumer", "consumer_number")
NAMES += ("first_number", "last_number", "first_offset", "last_offset", "count", "ranges", "target_sequence")
NAMES += ("target_due", "target_subject", "published_sequence", "due", "delay_ms", "key", "attempt", "start", "name")
NAMES += ("reason", "segment", "offset")


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


def _said(kind: str, fields: dict[str, Any]) -> Row | None:  # noqa: C901, PLR0911 - one case for each kind
    def target() -> Row:
        if not fields["target_sequence"]:
            return {}
        return {"target_sequence": fields["target_sequence"], "target_due": moment(fields["target_due_ms"])}

    def held() -> Row:
        return {"group_number": fields["group"], "consumer_number": fields["consumer"]}

    def ranged(of: str) -> Row:
        ranges = [list(one) for one in fields["ranges"]]
        names = {int(number) for first, count in ranges for number in range(first, first + count)}
        return span(of, names) | {"count": sum(count for _, count in ranges), "ranges": ranges}

    def span(of: str, names: Collection[int]) -> Row:
        return {f"first_{of}": min(names, default=None), f"last_{of}": max(names, default=None)}

    match kind:
        case "cancel":
            return target() | {"subject": fields["subject"]}
        case "move":
            said = {"subject": fields["subject"], "due": moment(fields["due_ms"]), "delay_ms": fields["delay_ms"]}
            return target() | said
        case "by_key":
            key = f"{fields['key'][1]:016x}{fields['key'][0]:016x}"
            said = {"kind": f"{fields['what']}_by_key", "subject": fields["subject"], "key": key}
            if fields["what"] == "move":
                said |= {"due": moment(fields["due_ms"]), "delay_ms": fields["delay_ms"]}
            return target() | said
        case "group":
            return {"subject": fields["subject"], "start": fields["start"], "group": fields["name"]}
        case "group_end":
            return {
                "group_number": fields["group"],
                "kind": {"alone": "group_end", "with_retries": "group_end_with_retries"}[fields["end"]],
            }
        case "group_reset":
            return {"group_number": fields["group"], "start": fields["start"]}
        case "consumer":
            return {"group_number": fields["group"], "consumer": fields["name"]}
        case "consumer_end":
            return held()
        case "attach":
            return {name: fields[name] for name in ("subject", "start", "group", "consumer")}
        case "assign":
            said = ranged("number")
            return held() | said | span("offset", range(fields["first_offset"], fields["first_offset"] + said["count"]))
        case "acknowledge":
            return held() | ranged("offset")
        case "retry":
            return held() | span("number", {fields["number"]}) | span("offset", {fields["offset"]}) | {
                "kind": "retry" if fields.get("destination", "again") == "again" else "dead_letter",
                "reason": fields.get("reason") or (None if fields.get("destination", "again") == "again" else ""),
                "target_subject": fields["target"],
                "due": moment(fields["due_ms"]),
                "attempt": fields["attempt"],
                "published_sequence": fields.get("payload_sequence"),
            }
        case "redrive":
            return span("number", {fields["number"]}) | {
                "group_number": fields["group"],
                "target_subject": fields["target"],
                "due": moment(fields["due_ms"]),
                "published_sequence": fields["payload_sequence"],
            }
        case "expire":
            return {"subject": fields["subject"], "due": moment(fields["due_before_ms"])} | ranged("number")
        case "void":
            number = fields["number"]
            return {"subject": fields["subject"]} | ({"target_sequence": number} if fields["what"] else span("number", {number}))
        case "subject":
            return {"subject": fields["number"], "name": fields["name"]}
        case "reserve":
            ends = {"last_offset": (fields["offset_end"] or None), "last_number": (fields["number_end"] or None)}
            return held() | {name: end and end - 1 for name, end in ends.items()}
        case "ready":
            return {"count": len(fields["entries"])}
        case "terms":
            return {"count": fields["messages"]}
        case "occurrence":
            return {"target_sequence": fields["series"], "target_due": moment(fields["after_ms"])}
        case "epoch_start":
            return {}
        case "recur":
            if fields["what"] == "over":
                return {"kind": "recur_over", "target_sequence": fields["series"]}
            kind = "recur_end" if fields["what"] == "end" else "recur"
            return {"kind": kind, "subject": fields["subject"], "name": fields["name"]}
    return None
