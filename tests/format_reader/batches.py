"""Batches: one commit each, chained."""

from __future__ import annotations

from dataclasses import dataclass, field

from format_reader.layout import Layout, crc32, demand
from format_reader.records import Record, read_record

HEADER = Layout(
    ("magic*", 8),
    ("length", 4),
    ("epoch", 4),
    ("base_sequence", 8),
    ("count", 4),
    ("record_count", 4),
    ("trusted_ms", 8),
    ("flags", 4),
    ("chain_before", 4),
    ("chain", 4),
    ("durability", 4),
    ("synced", 8),
    ("committed", 8),
    ("segment", 4),
    ("local_flags", 4),
    ("reserved", 4),
    ("header_check", 4),
)
MAGIC = b"DMQBATCH"


@dataclass(frozen=True)
class Batch:
    """One commit: where it starts, its header's fields, its records with their offsets in the file."""

    offset: int
    header: dict[str, int]
    records: list[tuple[int, Record]] = field(repr=False)

    @property
    def is_held(self) -> bool:
        return bool(self.header["flags"] & 1)

    @property
    def has_facts(self) -> bool:
        return bool(self.records)

    @property
    def is_witness(self) -> bool:
        return bool(self.header["local_flags"] & 1)

    @property
    def is_seal(self) -> bool:
        return bool(self.header["local_flags"] & 2)

    @property
    def end(self) -> int:
        return self.offset + self.header["length"]

    @property
    def next_sequence(self) -> int:
        return self.header["base_sequence"] + self.header["count"]


def read_batch(data: bytes, offset: int, stream: bytes) -> Batch:
    """The whole, checked batch at `offset`."""
    header = HEADER.read(data, offset)
    magic = HEADER.bytes_of(data, "magic", offset)
    demand(magic == MAGIC, offset, MAGIC, magic)
    expected = crc32(data[offset : offset + 84])
    demand(header["header_check"] == expected, offset + 84, hex(expected), hex(header["header_check"]))
    end = offset + header["length"]
    demand(header["length"] >= HEADER.size and header["length"] % 8 == 0, offset + 8, "a length", header["length"])
    demand(end <= len(data), offset + 8, f"{header['length']} bytes", f"{len(data) - offset} bytes")
    records = _records(data[:end], offset, header)
    if records:
        checks = b"".join(record.header_check.to_bytes(4, "little") for _, record in records)
        chain = crc32(stream, data[offset + 8 : offset + 48], checks)
    else:
        demand(header["length"] == HEADER.size and header["count"] == 0, offset, "an empty batch", header)
        chain = header["chain_before"]
    demand(header["chain"] == chain, offset + 48, hex(chain), hex(header["chain"]))
    return Batch(offset, header, records)


def _records(data: bytes, offset: int, header: dict[str, int]) -> list[tuple[int, Record]]:
    records = []
    at = offset + HEADER.size
    for place in range(header["record_count"]):
        record = read_record(data, at, header["base_sequence"] + place)
        records.append((at, record))
        at += record.taken
    demand(at == len(data), at, "the batch's end", f"{len(data)}")
    adopted = [record.fields["rows"] for _, record in records if record.kind == "adopt"]
    if adopted:
        last = records[-1][1].kind
        demand(len(adopted) == 1 and last == "adopt", offset, "one adoption, and nothing behind it", last)
    taken = header["record_count"] + sum(rows - 1 for rows in adopted)
    demand(header["count"] == taken, offset + 24, taken, header["count"])
    return records
