"""What the second reader says of the files of a store, and of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from format_reader.checkpoints import read_checkpoint
from format_reader.runs import SCHEDULE, read_run
from format_reader.segments import read_segment
from format_reader.store import numbered
from tables.oracle import Row, moment
from tables.replaying import Replay

HOUR_MS = 3_600_000
NAMES = ("sequence", "epoch", "time", "kind", "subject", "target_sequence", "target_due", "target_subject")
NAMES += ("published_sequence", "due", "delay_ms", "key", "group", "group_number", "consumer", "consumer_number")
NAMES += ("number", "pull_offset", "count", "ranges", "attempt", "start", "name", "reason", "segment", "offset")


def segments(folder: Path) -> list[Row]:
    """The table `segments` of a store that was closed: segments with facts, then runs that a checkpoint names."""
    newest = max(numbered(folder / "checkpoints", "checkpoint").items(), default=None)
    body = read_checkpoint(newest[1].read_bytes())["body"] if newest else {"floor": 1}
    rows = []
    for number, path in numbered(folder / "log", "segment").items():
        segment = read_segment(path.read_bytes())
        if not segment.batches or number < body["floor"]:
            continue
        headers = [batch.header for batch in segment.batches]
        first, end = headers[0]["base_sequence"], segment.batches[-1].next_sequence
        times = (moment(headers[0]["trusted_ms"]), moment(headers[-1]["trusted_ms"])) if first < end else (None, None)
        rows.append(_file("segment", folder, path, number, (first, end), end - first, times, is_sealed=segment.is_sealed))
    runs: set[int] = set()
    for path in numbered(folder / "checkpoints", "checkpoint").values():
        body = read_checkpoint(path.read_bytes())["body"]
        runs |= {run["number"] for run in (*body["schedule_runs"], *body["dispatch_runs"])}
    for number, path in numbered(folder / "runs", "run").items():
        if number not in runs:
            continue
        run = read_run(path.read_bytes())
        sequences = [row["sequence"] for row in run.rows]
        is_schedule = run.header["kind"] == SCHEDULE
        dues = [row["due_ms"] for row in run.rows]
        last = max(dues) // HOUR_MS * HOUR_MS + HOUR_MS - 1
        times = (moment(min(dues)), moment(last)) if is_schedule else (None, None)
        kind = "schedule_run" if is_schedule else "dispatch_run"
        spans = (min(sequences), max(sequences) + 1)
        rows.append(_file(kind, folder, path, number, spans, len(run.rows), times, is_sealed=True))
    return rows


def _file(
    kind: str,
    folder: Path,
    path: Path,
    number: int,
    sequences: tuple[int, int],
    records: int,
    times: tuple[Any, Any],
    *,
    is_sealed: bool,
) -> Row:
    stat = path.stat()
    return {
        "kind": kind,
        "path": str(path.relative_to(folder)),
        "number": number,
        "first_sequence": sequences[0],
        "end_sequence": sequences[1],
        "bytes": stat.st_size,
        "allocated_bytes": stat.st_blocks * 512,
        "records": records,
        "first_time": times[0],
        "last_time": times[1],
        "is_sealed": is_sealed,
    }


def actions(folder: Path, first_sequence: int = 1) -> list[Row]:
    """The table `action`."""
    replay = Replay(folder) if first_sequence == 1 else None
    groups: dict[int, tuple[int, str]] = dict(replay.groups) if replay else {}
    consumers: dict[int, str] = {}
    for path in numbered(folder / "checkpoints", "checkpoint").values():
        for group in read_checkpoint(path.read_bytes())["body"]["groups"]:
            groups[group["number"]] = (group["subject"], group["name"])
            consumers |= {consumer["number"]: consumer["name"] for consumer in group["consumers"]}
    rows = []
    assert replay is not None
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

    def ranged(first: str) -> Row:
        ranges = [list(one) for one in fields["ranges"]]
        return {first: ranges[0][0] if ranges else None, "count": sum(n for _, n in ranges), "ranges": ranges}

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
            return held() | ranged("number") | {"pull_offset": fields["first_offset"]}
        case "acknowledge":
            return held() | ranged("pull_offset")
        case "retry":
            return held() | {
                "kind": "retry" if fields.get("destination", "again") == "again" else "dead_letter",
                "reason": fields.get("reason") or (None if fields.get("destination", "again") == "again" else ""),
                "target_subject": fields["target"],
                "number": fields["number"],
                "pull_offset": fields["offset"],
                "due": moment(fields["due_ms"]),
                "attempt": fields["attempt"],
                "published_sequence": fields.get("payload_sequence"),
            }
        case "redrive":
            return {
                "group_number": fields["group"],
                "target_subject": fields["target"],
                "number": fields["number"],
                "due": moment(fields["due_ms"]),
                "published_sequence": fields["payload_sequence"],
            }
        case "expire":
            return {"subject": fields["subject"], "due": moment(fields["due_before_ms"])} | ranged("number")
        case "void":
            what = "target_sequence" if fields["what"] else "number"
            return {"subject": fields["subject"], what: fields["number"]}
        case "recur":
            if fields["what"] == "over":
                return {"kind": "recur_over", "target_sequence": fields["series"]}
            kind = "recur_end" if fields["what"] == "end" else "recur"
            return {"kind": kind, "subject": fields["subject"], "name": fields["name"]}
    return None
