"""Messages that filters judge a second, where one in a hundred passes; the limit reads, checks and compares as many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_least
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import measurement, own_process
from delaymq.bench.served import Served, on_server

MESSAGES = 1_000_000
MESSAGES_QUICK = 20_000
RARE_EVERY = 100  # messages of which one passes
BODY_BYTES = 64
JUDGED_PER_S = 1_000_000


def cases(quick: bool) -> Sequence[Case]:
    """Two rows: a subscription of the store, and pulls of a QMQ consumer over TCP, both with pages in memory."""
    messages = MESSAGES_QUICK if quick else MESSAGES
    numbers = {"messages": messages}

    def served(server: Served, folder: Path) -> Figures:
        return own_process("filters_served", folder, **numbers, port=server.port)

    return [
        Case(
            bench="filters",
            unit="messages/s",
            durability="os",
            n=messages,
            pairs=interleaved(ours, measurement("filters_limit", **numbers), quick=quick),
            limit_words="a file of as many messages read by one thread, as warm: each compared with its check and tag",
            detail={"consumer": consumer, "passes_every": RARE_EVERY, "body_bytes": BODY_BYTES, "from": "rust"},
            is_served=consumer == "qmq",
            must=at_least(value=JUDGED_PER_S),
        )
        for consumer, ours in (
            ("subscription", measurement("filters", **numbers, settle=int(not quick))),
            ("qmq", on_server(served, "os", settled=not quick)),
        )
    ]
