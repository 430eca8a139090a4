"""Segments: a header block, then batches without gaps, then zeros."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from format_reader.batches import Batch, read_batch
from format_reader.layout import FORMATS, DamagedError, Layout, crc32, demand

LAYOUT = Layout(
    ("magic*", 8),
    ("format_version", 4),
    ("number", 4),
    ("stream*", 16),
    ("timeline", 4),
    ("reserved", 4),
    ("capacity", 8),
    ("header_check", 4),
)
MAGIC = b"DMQSEGMT"
HEADER_BYTES = 4096


@dataclass(frozen=True)
class Segment:
    """What stands in one segment, up to its end: a seal, zeros, or a break."""

    header: dict[str, Any]
    batches: list[Batch] = field(repr=False)
    break_: DamagedError | None

    @property
    def is_sealed(self) -> bool:
        return bool(self.batches) and self.batches[-1].is_seal


def read_segment_header(data: bytes) -> dict[str, Any]:
    demand(data[:8] == MAGIC, 0, MAGIC, data[:8])
    fields = LAYOUT.read(data)
    expected = crc32(data[:48])
    demand(fields["header_check"] == expected, 48, hex(expected), hex(fields["header_check"]))
    demand(fields["format_version"] in FORMATS, 8, FORMATS, fields["format_version"])
    demand(not any(data[LAYOUT.size : HEADER_BYTES]), LAYOUT.size, "zeros", "other bytes")
    return fields | {"stream": LAYOUT.bytes_of(data, "stream")}


def read_segment(data: bytes) -> Segment:
    """The header and every batch up to the seal, the first zeros or the first break."""
    header = read_segment_header(data)
    batches: list[Batch] = []
    offset = HEADER_BYTES
    while offset < len(data) and not (batches and batches[-1].is_seal):
        if not any(data[offset : offset + 8]):
            return Segment(header, batches, None)
        try:
            batch = read_batch(data, offset, header["stream"])
            follows(batches[-1] if batches else None, batch)
            _demand_place(batch, header["number"])
        except DamagedError as error:
            return Segment(header, batches, error)
        batches.append(batch)
        offset = batch.end
    return Segment(header, batches, None)


def _demand_place(batch: Batch, number: int) -> None:
    found, here = batch.header, number << 32 | batch.offset
    demand(found["segment"] == number, batch.offset + 72, number, found["segment"])
    demand(found["synced"] <= here, batch.offset + 56, f"at most {here}", found["synced"])


def follows(before: Batch | None, batch: Batch) -> None:
    """Refuses a batch that is not the next one after `before`."""
    if before is None:
        return
    chain, sequence, trusted = before.header["chain"], before.next_sequence, before.header["trusted_ms"]
    found, epoch = batch.header, before.header["epoch"]
    demand(found["epoch"] >= epoch, batch.offset + 12, f"at least {epoch}", found["epoch"])
    demand(found["chain_before"] == chain, batch.offset + 44, hex(chain), hex(found["chain_before"]))
    demand(found["base_sequence"] == sequence, batch.offset + 16, sequence, found["base_sequence"])
    demand(found["trusted_ms"] >= trusted, batch.offset + 32, f"at least {trusted}", found["trusted_ms"])
