"""The identity: who a store is."""

from __future__ import annotations

from typing import Any

from format_reader.layout import FORMAT, Layout, crc32, demand

LAYOUT = Layout(
    ("magic*", 8),
    ("format_version", 4),
    ("flags", 4),
    ("stream*", 16),
    ("timeline", 4),
    ("promised_epoch", 4),
    ("node*", 16),
    ("coordinator", 8),
    ("register_version", 8),
    ("segment_bytes", 4),
    ("check", 4),
)
MAGIC = b"DMQSTORE"


def read_identity(data: bytes) -> dict[str, Any]:
    demand(len(data) == LAYOUT.size, 0, f"{LAYOUT.size} bytes", len(data))
    demand(data[:8] == MAGIC, 0, MAGIC, data[:8])
    fields = LAYOUT.read(data)
    expected = crc32(data[:76])
    demand(fields["check"] == expected, 76, hex(expected), hex(fields["check"]))
    demand(fields["format_version"] == FORMAT, 8, FORMAT, fields["format_version"])
    return fields | {"stream": LAYOUT.bytes_of(data, "stream"), "node": LAYOUT.bytes_of(data, "node")}
