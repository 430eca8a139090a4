"""Segments: a header block, then batches without gaps, then zeros."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from format_reader.batches import Batch, read_batch
from format_reader.layout import FORMAT, DamagedError, Layout, crc32, demand

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
class Hole:
    """Batches that nobody reads any more, as a checkpoint names them: from one position to another."""

    begin: dict[str, Any]
    end: dict[str, Any]

    @property
    def header(self) -> dict[str, Any]:
        """What the batch behind it must follow."""
        return {name: self.end[name] for name in ("chain", "epoch", "trusted_ms")}

    @property
    def next_sequence(self) -> int:
        return int(self.end["next_sequence"])

    @property
    def offset(self) -> int:
        return int(self.begin["end"]) & 0xFFFF_FFFF

    @property
    def is_seal(self) -> bool:
        return False

    @property
    def has_facts(self) -> bool:
        return True


@dataclass(frozen=True)
class Segment:
    """What stands in one segment, up to its end: a seal, zeros, or a break."""

    header: dict[str, Any]
    steps: list[Batch | Hole] = field(repr=False)
    break_: DamagedError | None

    @property
    def batches(self) -> list[Batch]:
        return [step for step in self.steps if isinstance(step, Batch)]

    @property
    def is_sealed(self) -> bool:
        return bool(self.steps) and self.steps[-1].is_seal

    @property
    def last_facts(self) -> Batch | Hole | None:
        return next((step for step in reversed(self.steps) if step.has_facts), None)


def read_segment_header(data: bytes) -> dict[str, Any]:
    demand(data[:8] == MAGIC, 0, MAGIC, data[:8])
    fields = LAYOUT.read(data)
    expected = crc32(data[:48])
    demand(fields["header_check"] == expected, 48, hex(expected), hex(fields["header_check"]))
    demand(fields["format_version"] == FORMAT, 8, FORMAT, fields["format_version"])
    demand(not any(data[LAYOUT.size : HEADER_BYTES]), LAYOUT.size, "zeros", "other bytes")
    return fields | {"stream": LAYOUT.bytes_of(data, "stream")}


def read_segment(data: bytes, holes: Iterable[Hole] = ()) -> Segment:
    """The header and every batch that is not in a hole, up to the seal, the first zeros or the first break."""
    header = read_segment_header(data)
    beginning = {hole.offset: hole for hole in holes}
    steps: list[Batch | Hole] = []
    facts: Batch | Hole | None = None
    offset = HEADER_BYTES
    while offset < len(data) and not (steps and steps[-1].is_seal):
        before = steps[-1] if steps else None
        try:
            if hole := beginning.get(offset):
                follows(before, facts, hole)
                steps.append(hole)
                facts = hole
                offset = int(hole.end["end"]) & 0xFFFF_FFFF
                continue
            if not any(data[offset : offset + 8]):
                return Segment(header, steps, None)
            batch = read_batch(data, offset, header["stream"])
            follows(before, facts, batch)
            _demand_place(batch, header["number"])
        except DamagedError as error:
            return Segment(header, steps, error)
        steps.append(batch)
        facts = batch if batch.has_facts else facts
        offset = batch.end
    return Segment(header, steps, None)


def _demand_place(batch: Batch, number: int) -> None:
    found, here = batch.header, number << 32 | batch.offset
    demand(found["segment"] == number, batch.offset + 72, number, found["segment"])
    demand(found["synced"] <= here, batch.offset + 56, f"at most {here}", found["synced"])


def follows(before: Batch | Hole | None, facts: Batch | Hole | None, step: Batch | Hole) -> None:
    """Refuses a batch or a hole that is not the next one after `before`, where `facts` is the last one with records."""
    if before is None:
        return
    chain, sequence = before.header["chain"], before.next_sequence
    if isinstance(step, Hole):
        found = (step.begin["chain"], step.begin["next_sequence"])
        demand(found == (chain, sequence), step.offset, (chain, sequence), found)
        return
    header, offset = step.header, step.offset
    demand(header["chain_before"] == chain, offset + 44, hex(chain), hex(header["chain_before"]))
    demand(header["base_sequence"] == sequence, offset + 16, sequence, header["base_sequence"])
    if facts is not None:
        epoch, trusted = facts.header["epoch"], facts.header["trusted_ms"]
        demand(header["epoch"] >= epoch, offset + 12, f"at least {epoch}", header["epoch"])
        demand(header["trusted_ms"] >= trusted, offset + 32, f"at least {trusted}", header["trusted_ms"])
