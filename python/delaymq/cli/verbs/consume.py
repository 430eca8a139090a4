"""`delaymq consume`: prints the messages of subjects as they become due."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import timedelta

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb, count, duration
from delaymq.cli.input.json_lines import line_of
from delaymq.cli.input.starts import add_start
from delaymq.cli.input.stores import Queue, add_place, open_queue, settings_of
from delaymq.filters import Present, StartsWith, all_of
from delaymq.message import Message
from delaymq.store import Store
from delaymq.subscription import Subscription

IN_FLIGHT_MAX = 256
BATCH_MESSAGES = 256
IDLE = timedelta(milliseconds=500)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "consume",
        run,
        summary="print messages as they become due, and acknowledge printed messages",
        details="A message is acknowledged after it was written. Ctrl-C gives the others back. A message that --tag or "
        "--attribute keeps back is finished for the group.",
        examples=(
            "delaymq consume order.timeout --group billing --store ./data",
            "delaymq consume order.timeout --group billing --count 10 --timeout 1m --server delaymq://127.0.0.1:20801",
            "delaymq consume order.timeout --group billing --until-empty --jsonl --store ./data >due.jsonl",
            "delaymq consume order.timeout --group billing --until-empty --no-ack --store ./data",
            "delaymq consume order.timeout --group refunds --tag eu --attribute kind^=refund --store ./data",
            "delaymq consume order.timeout --group audit --start earliest --until-empty --store ./data",
            "delaymq consume order.timeout order.refund --group billing --store ./data",
            "delaymq consume 'order.*' --group audit --jsonl --store ./data",
        ),
    )
    verb.add_argument(
        "subjects",
        metavar="SUBJECT",
        nargs="+",
        help="subject to consume, several of them, or a prefix with '*' at its end, quoted for the shell",
    )
    verb.add_argument("--group", metavar="NAME", help="consumer group, which remembers what it has acknowledged")
    add_start(verb, "where a new group begins (default unfinished)")
    verb.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="TAG",
        dest="tags",
        help="print only messages with this tag; repeat it for messages with any of several",
    )
    verb.add_argument("--all-tags", action="store_true", help="print only messages that have each --tag")
    verb.add_argument(
        "--attribute",
        action="append",
        default=[],
        type=attribute_condition,
        metavar="CONDITION",
        dest="attributes",
        help="print only messages with this attribute: NAME, NAME=VALUE, or NAME^=BEGINNING of the value",
    )
    verb.add_argument("--count", type=count, metavar="N", help="end after this many messages")
    verb.add_argument("--timeout", type=duration, metavar="TIME", help="end after this time")
    verb.add_argument("--until-empty", action="store_true", help="end when no message was due for --idle")
    verb.add_argument("--idle", type=duration, default=IDLE, metavar="TIME", help="see --until-empty (default 500ms)")
    verb.add_argument("--jsonl", action="store_true", help="one JSON object on a line, with all fields of the message")
    verb.add_argument(
        "--no-ack",
        action="store_true",
        help="only look: give all messages back at the end, to come again as redelivered",
    )
    verb.add_argument(
        "--in-flight-max", type=count, metavar="N", help="maximum number of messages in flight (default 256)"
    )
    add_place(verb)


def attribute_condition(text: str) -> tuple[str, str | StartsWith | Present]:
    """The name of an attribute and the condition on it, from NAME, NAME=VALUE or NAME^=BEGINNING."""
    name, equals, value = text.partition("=")
    if not equals:
        return name, Present()
    return (name[:-1], StartsWith(value)) if name.endswith("^") else (name, value)


def run(chosen: argparse.Namespace) -> int:
    """Consumes until the requested end."""
    settings = settings_of(chosen)
    group = chosen.group or settings.get("consume.group")
    if group is None:
        raise UsageError("no group: give --group NAME, or configure consume.group")
    in_flight_max = chosen.in_flight_max or settings.get("consume.in_flight_max", IN_FLIGHT_MAX)
    if chosen.no_ack and (chosen.count is None or chosen.count > in_flight_max):
        # Unacknowledged messages stay in flight, and no more than that can be in flight.
        chosen.count = in_flight_max
    if chosen.count is not None:
        in_flight_max = min(in_flight_max, chosen.count)
    with (
        open_queue(chosen, settings) as store,
        store.subscribe(
            chosen.subjects,
            group=group,
            start=chosen.start,
            in_flight_max=in_flight_max,
            tags=all_of(*chosen.tags) if chosen.all_tags else chosen.tags,
            attributes=dict(chosen.attributes),
        ) as messages,
    ):
        return _consume(chosen, store, messages)


def _consume(chosen: argparse.Namespace, store: Queue, messages: Subscription) -> int:
    # A server that is gone sends nothing either, so the server must answer within the idle time.
    looks_left = looks = 1 if isinstance(store, Store) else 2
    left: int | None = chosen.count
    end = None if chosen.timeout is None else time.monotonic() + chosen.timeout.total_seconds()
    while left is None or left > 0:
        most = BATCH_MESSAGES if left is None else min(left, BATCH_MESSAGES)
        batch = next(messages.batches(most, _wait(chosen, end, looks)), [])
        _write(chosen, batch)
        if not chosen.no_ack:
            messages.ack(batch)
        if left is not None:
            left -= len(batch)
        if batch:
            looks_left = looks
            continue
        if chosen.until_empty:
            looks_left -= 1
            if not looks_left:
                return Exit.DONE
            store.status()
        elif end is not None and time.monotonic() >= end:
            return Exit.PART if left else Exit.DONE
    return Exit.DONE


def _wait(chosen: argparse.Namespace, end: float | None, looks: int) -> timedelta | None:
    """Returns how long to wait for the next message, if this many waits make one idle time."""
    waits = [chosen.idle / looks] if chosen.until_empty else []
    if end is not None:
        waits.append(timedelta(seconds=max(0.0, end - time.monotonic())))
    return min(waits, default=None)


def _write(chosen: argparse.Namespace, batch: Sequence[Message]) -> None:
    """Writes all messages. A message that could not be written is not acknowledged."""
    out = sys.stdout.buffer
    for message in batch:
        out.write(line_of(message).encode() if chosen.jsonl else message.body)
        out.write(b"\n")
    out.flush()
