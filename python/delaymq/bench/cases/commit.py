"""Messages a second that are stored: by a program in Rust, by one submitter with commits in flight, and from Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_least
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import measurement
from delaymq.bench.served import grow
from delaymq.store import Durability, Store

BODY = bytes(256)
BATCH = 1000
RECORDS_PER_S_LEAST = {False: 3_000_000, True: 2_000_000}  # near, and far
IN_FLIGHT = (1, 16, 64, 256, 1024)
COMMITS = 2000  # approximate number of syncs of a run
COMMITS_QUICK = 300
MESSAGES_MAX = 500_000
DELAY_S = 600
SETTLE_S = 2.0  # a store in use has prepared its segments by then
COPIED = "the same bytes copied in memory"


def cases_append(quick: bool) -> Sequence[Case]:
    """One row within the window, in which a checkpoint copies nothing, and one beyond it."""
    return [_append(200_000 if quick else 1_000_000, far=far, quick=quick) for far in (False, True)]


def _append(messages: int, *, far: bool, quick: bool) -> Case:
    shape = {"messages": messages, "body_bytes": len(BODY), "batch": BATCH}
    numbers = {**shape, "far": int(far), "settle": int(not quick)}
    return Case(
        bench="append",
        unit="records/s",
        durability="os",
        n=messages,
        pairs=interleaved(measurement("append", **numbers), measurement("append_limit", **numbers), quick=quick),
        limit_words="pwrite of the same batches into a prepared file"
        + (", pwrite of a run with the same payloads, one fdatasync" if far else ""),
        plain_words=COPIED,
        detail={"where": "beyond" if far else "window", "batch": BATCH, "body_bytes": len(BODY), "from": "rust"},
        must=at_least(value=RECORDS_PER_S_LEAST[far]),
    )


def cases(quick: bool) -> Sequence[Case]:
    """Durable acknowledgements a second of publishes of one message: one row for each number in flight."""
    return [_commit(in_flight, quick=quick) for in_flight in IN_FLIGHT]


def _commit(in_flight: int, *, quick: bool) -> Case:
    messages = min(MESSAGES_MAX, in_flight * (COMMITS_QUICK if quick else COMMITS))
    shape = {"messages": messages, "in_flight": in_flight, "body_bytes": len(BODY)}
    numbers = {**shape, "disk": 1, "settle": int(not quick)}
    return Case(
        bench="commit",
        unit="acks/s",
        durability="disk",
        n=messages,
        pairs=interleaved(measurement("commit", **numbers), measurement("commit_limit", **numbers), quick=quick),
        limit_words="pwrite of as many records, fdatasync, again and again, into a prepared file",
        detail={"in_flight": in_flight, "batch": 1, "body_bytes": len(BODY), "from": "rust"},
    )


def cases_one(quick: bool) -> Sequence[Case]:
    """`publish`, a call for each message, one after the other."""

    def publish(store: Store, messages: int) -> None:
        publish = store.publish
        for _ in range(messages):
            publish("bench", BODY, delay=DELAY_S)

    return [
        _publish("publish", publish, ("os", 20_000 if quick else 100_000), (1, "message"), quick=quick),
        _publish("publish", publish, ("disk", 1000 if quick else 5000), (1, "message"), quick=quick),
    ]


def cases_many(quick: bool) -> Sequence[Case]:
    """`publish_many`, a thousand in a call, one call after the other."""
    bodies, delays = [BODY] * BATCH, [float(DELAY_S)] * BATCH

    def publish(store: Store, messages: int) -> None:
        publish_many = store.publish_many
        for _ in range(messages // BATCH):
            publish_many("bench", bodies, delays)

    return [
        _publish("publish_many", publish, ("os", 200_000 if quick else 1_000_000), (BATCH, "batch"), quick=quick),
        _publish("publish_many", publish, ("disk", 100_000 if quick else 500_000), (BATCH, "batch"), quick=quick),
    ]


def _publish(
    call: str,
    publish: Callable[[Store, int], None],
    what: tuple[Durability, int],
    each: tuple[int, str],
    *,
    quick: bool,
) -> Case:
    (durability, messages), (batch, word) = what, each

    def ours(folder: Path) -> Figures:
        if not quick:
            grow(folder)
        with Store.open(folder, durability=durability) as store:
            time.sleep(0 if quick else SETTLE_S)
            started = time.perf_counter()
            publish(store, messages)
            return {"value": messages / (time.perf_counter() - started)}

    disk = durability == "disk"
    limit = measurement("append_limit", messages=messages, batch=batch, body_bytes=len(BODY), disk=int(disk))
    words = "one pwrite" + (" and fdatasync" if disk else "") + f" for each {word}, in Rust, into a prepared file"
    detail = {"call": call, "batch": batch, "body_bytes": len(BODY), "from": "python"}
    pairs = interleaved(ours, limit, quick=quick)
    return Case(call, "messages/s", durability, messages, pairs, words, plain_words=COPIED, detail=detail)
