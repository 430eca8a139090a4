"""How fast consumers in one process receive messages: a burst, an hour passed at full speed, and many subjects.

A burst is due in the same millisecond; the figure is the seconds until one consumer has received it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.machine import anonymous_bytes
from delaymq.bench.marks import at_least, at_most
from delaymq.bench.row import Case, Figures, Measurement
from delaymq.bench.rust import in_process, measurement, own_process
from delaymq.message import Message, Publish
from delaymq.store import Store

LEAD_MS = 10_000  # time to publish all messages before they are due
LEAD_QUICK_MS = 6000
LEAD_MESSAGES_EACH_MS = 250  # the lowest rate of publishing, in messages a millisecond
SUBJECT = "bench.burst"
BODY = bytes(64)
PUBLISH_BATCH = 10_000
BATCH = 1024
IN_FLIGHT_MAX = 16_384
SUBJECTS = (6, 16, 40)  # subjects that share the burst
SUBJECTS_QUICK = (16,)
SECONDS_OF_A_MILLION_MOST = {"rust": 2.0, "python": 5.0}
NEIGHBOUR_MS_MOST = 50.0
HOUR_ANONYMOUS_BYTES_MOST = 1 << 30  # of the whole process
TURNS = (1, 100, 1000, 10_000)  # subjects that are published to in turn
TURNS_QUICK = (1, 1000)
TURNS_TOGETHER = 1000  # subjects of one subscription
TURN_BATCH = 1000
TOGETHER_PER_S_LEAST = 800_000
LOOK_EVERY = 20_000  # messages between two measurements of the memory


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """A consumer in Rust, one in Python, and one in Rust of several subjects that share the burst; all acknowledge.

    During the cases in Rust, another subject has a message due every 2 ms.

    Args:
        quick: Fewer messages and rows, one run.
        scale: The number of messages in the burst, for the cases in Rust only.
    """
    messages = scale or (50_000 if quick else 1_000_000)
    lead_ms = LEAD_QUICK_MS if quick else LEAD_MS + (scale or 0) // LEAD_MESSAGES_EACH_MS
    numbers = {"messages": messages, "lead_ms": lead_ms, "disk": 1}
    in_rust, rust_limit = partial(in_process, "burst", **numbers), measurement("burst_limit", **numbers)
    counts = SUBJECTS_QUICK if quick else SUBJECTS
    words = "ready facts and acknowledgements written with a sync for each 1,024, every message read once"

    def python_limit(folder: Path) -> Figures:
        return {"value": rust_limit(folder)["value"] + _objects(messages)}

    python_words = words + "; then as many Message objects made from ready tuples"
    rows: list[tuple[str, int, Measurement, Measurement, str]] = [
        ("rust", 1, in_rust(subjects=1), rust_limit, words),
        *([] if scale else [("python", 1, partial(_consumed, numbers), python_limit, python_words)]),
        *(("rust", count, in_rust(subjects=count), rust_limit, words) for count in counts),
    ]
    return [
        Case(
            bench="burst",
            unit="s",
            durability="disk",
            n=messages,
            pairs=interleaved(ours, limit, quick=quick),
            limit_words=limit_words,
            higher_is_better=False,
            detail={"consumer": consumer, "subjects": subjects, "batch": BATCH, "in_flight_max": IN_FLIGHT_MAX},
            must=at_most(
                value=SECONDS_OF_A_MILLION_MOST[consumer] * messages / 1e6,
                **({"neighbour_p99_ms": NEIGHBOUR_MS_MOST} if consumer == "rust" else {}),
            ),
        )
        for consumer, subjects, ours, limit, limit_words in rows
    ]


def _consumed(numbers: dict[str, int], folder: Path) -> Figures:
    """Seconds from the due time until Python code has the last message, all acknowledged."""
    left, early, last_ms = numbers["messages"], 0, 0.0
    due = datetime.now(UTC) + timedelta(milliseconds=numbers["lead_ms"])
    due_ms = due.timestamp() * 1000
    with Store.open(folder) as store, store.subscribe(SUBJECT, group="bench", in_flight_max=IN_FLIGHT_MAX) as messages:
        for _ in range(left // PUBLISH_BATCH):
            store.publish_many([Publish(SUBJECT, BODY, at=due)] * PUBLISH_BATCH)
        if datetime.now(UTC) >= due:
            raise RuntimeError("the burst was due before all of it was published")
        empty = highest = anonymous_bytes()
        for batch in messages.batches(BATCH, wait=30):
            if not batch:
                raise RuntimeError(f"{left:,} messages did not come")
            last_ms = time.time_ns() / 1e6
            early += len(batch) if last_ms < due_ms else 0
            messages.ack(batch)
            if left // LOOK_EVERY != (left - len(batch)) // LOOK_EVERY:
                highest = max(highest, anonymous_bytes())
            left -= len(batch)
            if left <= 0:
                break
    return {"value": (last_ms - due_ms) / 1000, "early": early, "memory_growth_bytes": highest - empty}


def _objects(messages: int) -> float:
    """Seconds to create the Python objects alone."""
    delivery = (1, SUBJECT, BODY, 1, 1, 1, False, 1, 1, b"")
    started = time.perf_counter()
    for _ in range(messages // BATCH):
        tuples = [(key, *delivery[1:]) for key in range(BATCH)]
        kept = [Message(None, fields, 0) for fields in tuples]  # type: ignore[arg-type]
        del kept
    return time.perf_counter() - started


def cases_hour(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """An hour of evenly spread messages at full speed: one row, published and consumed in Rust, in its own process.

    Args:
        quick: Fewer messages, one run.
        scale: The number of messages within the hour, in one run.
    """
    messages = scale or (50_000 if quick else 2_000_000)
    seconds = measurement("burst_limit", step_messages=IN_FLIGHT_MAX, messages=messages, disk=1)

    def limit(folder: Path) -> Figures:
        return {"value": messages / seconds(folder)["value"]}

    return [
        Case(
            bench="hour",
            unit="messages/s",
            durability="disk",
            n=messages,
            pairs=interleaved(in_process("hour", messages=messages, disk=1), limit, quick=quick or scale is not None),
            limit_words="ready facts and acknowledgements written with a sync for each 16,384, each message read once",
            detail={"pending": messages, "batch": BATCH, "in_flight_max": IN_FLIGHT_MAX, "from": "rust"},
            must=at_most(anonymous_bytes=HOUR_ANONYMOUS_BYTES_MOST),
        )
    ]


def cases_subjects(quick: bool) -> Sequence[Case]:
    """A row for each number of subjects with the same traffic, and a subscription for each; then one for all.

    One thread consumes. The last row has both forms, in turns.
    """
    messages = 50_000 if quick else 1_000_000
    numbers = {"messages": messages, "body_bytes": len(BODY), "batch": TURN_BATCH, "disk": 1}

    def together(folder: Path) -> Figures:
        found, apart = (
            own_process(name, _made(folder / name), subjects=TURNS_TOGETHER, **numbers)
            for name in ("subjects_together", "subjects")
        )
        return {**found, "apart_per_s": apart["value"], "apart_messages_per_pull": apart["messages_per_pull"]}

    each = TURNS_QUICK if quick else TURNS
    rows: list[tuple[int, Measurement, dict[str, object]]] = [
        (subjects, in_process("subjects", subjects=subjects, **numbers), {}) for subjects in each
    ]
    rows.append((TURNS_TOGETHER, together, {"call": "together"}))
    return [
        Case(
            bench="subjects",
            unit="messages/s",
            durability="disk",
            n=messages,
            pairs=interleaved(ours, measurement("subjects_limit", subjects=subjects, **numbers), quick=quick),
            limit_words="the messages of each batch written with a sync and read once, then as many assignments "
            "and acknowledgements written with a sync",
            detail={"subjects": subjects, "batch": TURN_BATCH, "body_bytes": len(BODY), "from": "rust", **more},
            must=at_least(value=TOGETHER_PER_S_LEAST) if more else (),
        )
        for subjects, ours, more in rows
    ]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
