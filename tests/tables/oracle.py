"""What the second reader of the format says that a table must be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from format_reader.batches import Batch
from format_reader.checkpoints import read_checkpoint
from format_reader.layout import crc32
from format_reader.segments import Hole, read_segment
from format_reader.store import numbered

if TYPE_CHECKING:
    from delaymq.tables import Rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


@dataclass(frozen=True)
class Placed:
    """A batch, and the segment that it is in."""

    segment: int
    batch: Batch

    @property
    def end(self) -> int:
        return self.segment << 32 | self.batch.end


def visible_batches(folder: Path) -> list[Placed]:
    """Every batch that is known to be durable: all of a log that was closed, else what a later batch vouches for."""
    placed: list[Placed] = []
    saved = [
        read_checkpoint(path.read_bytes())["body"] for path in numbered(folder / "checkpoints", "checkpoint").values()
    ]
    holes = [Hole(row["from"], row["to"]) for row in (saved[-1].get("holes", ()) if saved else ())]
    for number, path in numbered(folder / "log", "segment").items():
        segment = read_segment(path.read_bytes(), [hole for hole in holes if hole.begin["end"] >> 32 == number])
        if placed and placed[-1].segment == number - 1 and not placed[-1].batch.is_seal:
            break
        placed += [Placed(number, batch) for batch in segment.batches]
    if not placed or placed[-1].batch.is_seal:
        return placed
    headers = [one.batch.header for one in placed]
    visible = max(max(header["synced"], header["committed"]) for header in headers)
    # What a checkpoint refers to was durable before it was written.
    visible = max([visible, *(body["position"]["end"] for body in saved)])
    return [one for one in placed if one.end <= visible]


def names_of(folder: Path, batches: list[Placed]) -> dict[int, str]:
    names: dict[int, str] = {}
    for path in numbered(folder / "checkpoints", "checkpoint").values():
        subjects = read_checkpoint(path.read_bytes())["body"]["subjects"]
        names |= {subject["number"]: subject["name"] for subject in subjects}
    for one in batches:
        for _, record in one.batch.records:
            if record.kind == "subject":
                names[record.fields["number"]] = record.fields["name"]
    return names


def messages(folder: Path, first_sequence: int = 1, end_sequence: int | None = None) -> list[Row]:
    """The table `message`, tags and attributes decoded."""
    batches = visible_batches(folder)
    names = names_of(folder, batches)
    rows: list[Row] = []
    for one in batches:
        keys: dict[int, str] = {}
        for offset, record in one.batch.records:
            if record.kind == "terms":
                for place, key, _, _ in record.fields["rows"]:
                    if key is not None:
                        keys[record.sequence + 1 + place] = f"{key[1]:016x}{key[0]:016x}"
            above = end_sequence is not None and record.sequence >= end_sequence
            if record.kind != "message" or not record.payload_is_whole or record.sequence < first_sequence or above:
                continue
            fields = record.fields
            rows.append(
                {
                    "sequence": record.sequence,
                    "epoch": one.batch.header["epoch"],
                    "subject": names[fields["subject"]],
                    "message_id": fields["message_id"] or None,
                    "key": keys.get(record.sequence),
                    "tags": fields["tags"],
                    "attributes": {
                        name: value.decode("utf-8", "surrogateescape") for name, value in fields["attributes"]
                    },
                    "body": fields["body"],
                    "body_bytes": len(fields["body"]),
                    "published": moment(one.batch.header["trusted_ms"]),
                    "due": moment(fields["due_ms"]),
                    "segment": f"log/{one.segment:010}.segment",
                    "offset": offset,
                    "payload_check": crc32(record.payload),
                    "expires": moment(fields["expires_ms"]) if "expires_ms" in fields else None,
                    "on_expiry": fields.get("on_expiry"),
                }
            )
    return rows


def table_of(rows: Rows) -> pyarrow.Table:
    """The rows as pyarrow gets them, each batch sound."""
    table = pyarrow.RecordBatchReader.from_stream(rows).read_all()
    table.validate(full=True)
    return table


def plain(rows: Rows) -> list[Row]:
    """The rows as they are."""
    found: list[Row] = table_of(rows).to_pylist()
    return found


def read(rows: Rows) -> list[Row]:
    """The rows, tags and attributes decoded."""
    found: list[Row] = table_of(rows).to_pylist()
    for row in found:
        for name in ("tags", "attributes"):
            if name in row:
                row[name] = json.loads(row[name])
    return found
