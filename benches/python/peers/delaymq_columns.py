"""The same server and client; a batch is published as columns: bodies, and a datetime for each."""

from __future__ import annotations

from datetime import UTC, datetime

from peers.delaymq_rows import DelaymqRows


class DelaymqColumns(DelaymqRows):  # type: ignore[misc] # the folder of peers has no types
    name = "delaymq-columns"
    client = "delaymq.connect, publish_many of columns with at= (1,000 a call)"

    def publish(self, batch: list[tuple[int, bytes]]) -> None:
        bodies = [body for _, body in batch]
        self.conn().publish_many("peer", bodies, at=[datetime.fromtimestamp(due_ms / 1000, UTC) for due_ms, _ in batch])


PEER = DelaymqColumns
