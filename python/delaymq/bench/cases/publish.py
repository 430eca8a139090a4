"""Messages a second from Python: one call each, and many in a call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from delaymq.bench.cases.append import COPIED
from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import measurement
from delaymq.bench.served import grow
from delaymq.store import Durability, Store

__all__ = ["cases_many", "cases_one"]

BODY = bytes(256)
DELAY_S = 600
BATCH = 1000
SETTLE_S = 2.0


def settle(store: Store, *, quick: bool) -> None:
    """Publishes 40 MiB and waits until the store has prepared its segments, as a store in use has.

    A new store has small segments; `quick` measures one.
    """
    if not quick:
        grow(store)
        time.sleep(SETTLE_S)


def cases_one(quick: bool) -> Sequence[Case]:
    """`publish`, a call for each message, one after the other."""
    return [_one("os", 20_000 if quick else 100_000, quick=quick), _one("disk", 1000 if quick else 5000, quick=quick)]


def cases_many(quick: bool) -> Sequence[Case]:
    """`publish_many`, a thousand in a call, one call after the other."""
    return [
        _many("os", 200_000 if quick else 1_000_000, quick=quick),
        _many("disk", 100_000 if quick else 500_000, quick=quick),
    ]


def _one(durability: Durability, messages: int, *, quick: bool) -> Case:
    def ours(folder: Path) -> Figures:
        with Store.open(folder, durability=durability) as store:
            settle(store, quick=quick)
            publish = store.publish
            started = time.perf_counter()
            for _ in range(messages):
                publish("bench", BODY, delay=DELAY_S)
            return {"value": messages / (time.perf_counter() - started)}

    disk = durability == "disk"
    limit = measurement("append_limit", messages=messages, batch=1, body_bytes=len(BODY), disk=int(disk))
    words = "one pwrite" + (" and fdatasync" if disk else "") + " for each message, in Rust, into a prepared file"
    detail = {"call": "publish", "batch": 1, "body_bytes": len(BODY), "from": "python"}
    pairs = interleaved(ours, limit, quick=quick)
    return Case("publish", "messages/s", durability, messages, pairs, words, plain_words=COPIED, detail=detail)


def _many(durability: Durability, messages: int, *, quick: bool) -> Case:
    bodies, delays = [BODY] * BATCH, [float(DELAY_S)] * BATCH

    def ours(folder: Path) -> Figures:
        with Store.open(folder, durability=durability) as store:
            settle(store, quick=quick)
            publish_many = store.publish_many
            started = time.perf_counter()
            for _ in range(messages // BATCH):
                publish_many("bench", bodies, delays)
            return {"value": messages / (time.perf_counter() - started)}

    disk = durability == "disk"
    limit = measurement("append_limit", messages=messages, batch=BATCH, body_bytes=len(BODY), disk=int(disk))
    words = "one pwrite" + (" and fdatasync" if disk else "") + " for each batch, in Rust, into a prepared file"
    detail = {"call": "publish_many", "batch": BATCH, "body_bytes": len(BODY), "from": "python"}
    pairs = interleaved(ours, limit, quick=quick)
    return Case("publish_many", "messages/s", durability, messages, pairs, words, plain_words=COPIED, detail=detail)
