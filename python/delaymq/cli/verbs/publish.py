"""`delaymq publish`: publishes one message from the command line, or many from standard input."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import (
    Verbs,
    add_attributes,
    add_on_expiry,
    add_times,
    add_verb,
    attributes_of,
    count,
    delay,
    moment_or_delay,
)
from delaymq.cli.input.json_lines import message_of
from delaymq.cli.input.stores import Queue, add_place, open_queue, settings_of
from delaymq.cli.output.streams import standard_input, standard_input_is_a_terminal
from delaymq.errors import DelaymqError
from delaymq.message import Publish
from delaymq.receipt import Receipt

READ_BYTES = 1 << 20
BATCH_MESSAGES = 1000
BATCH_BYTES = 7 << 20  # with the options of each message, it fits into a frame to a server
LINE_BYTES_MAX = 16 << 20

EXAMPLES = (
    "delaymq publish order.timeout 42 --delay 30m --store ./data",
    "delaymq publish reminder 'call home' --at 2030-12-31T18:00:00+02:00 --store ./data",
    "delaymq publish report - --delay 1h30m --store ./data <report.pdf",
    "delaymq publish offer 'half price' --delay 1h --expires 30m --store ./data",
    "delaymq publish order.timeout 42 --delay 30m --key 17 --if-exists replace --store ./data",
    "delaymq publish --jsonl - --store ./data <messages.jsonl",
    "delaymq publish --jsonl - --deduplicate --server delaymq://127.0.0.1:20801 <messages.jsonl",
    "delaymq publish order.timeout 42 --delay 30m --server delaymq://127.0.0.1:20801",
    """echo '{"subject": "order.timeout", "body": "42", "delay": "30m"}' | delaymq publish --jsonl - --store ./data""",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "publish",
        run,
        summary="store a message, which is delivered when it is due",
        details="Prints a receipt for each message, which `delaymq cancel` takes. Creates the store if the "
        "folder has none.",
        examples=EXAMPLES,
    )
    verb.add_argument("subject", nargs="?", metavar="SUBJECT", help="subject to publish on")
    verb.add_argument("body", nargs="?", metavar="BODY", help="the message; - reads it from standard input")
    when = verb.add_mutually_exclusive_group()
    add_times(when)
    when.add_argument("--level", type=count, metavar="N", help="one of the 18 levels of RocketMQ, 1 (1s) to 18 (2h)")
    verb.add_argument("--jitter", type=delay, metavar="TIME", help="add a random part of this time to the due time")
    verb.add_argument(
        "--expires",
        type=moment_or_delay,
        metavar="TIME",
        help="the message is of use for so long after its due time (30m), or until then (2030-12-31T18:00:00Z)",
    )
    add_on_expiry(verb)
    add_attributes(verb)
    verb.add_argument("--message-id", metavar="TEXT", help="your own name for the message")
    verb.add_argument(
        "--key", metavar="TEXT", help="your own key for the message: at most one pending message of a subject has it"
    )
    verb.add_argument(
        "--if-exists",
        choices=("replace", "keep", "error"),
        help="what to do if a pending message has the key: cancel it, leave it, or fail (the default)",
    )
    verb.add_argument(
        "--deduplicate",
        action="store_true",
        default=None,
        help="store a message with this id once within ten minutes, however often it is published; "
        "without an id one is made, so that a client can send the message again after a lost "
        "answer; with --jsonl, for each message",
    )
    verb.add_argument(
        "--jsonl",
        metavar="FILE",
        help="many messages, one JSON object on a line; - is standard input (see docs/cli.md)",
    )
    verb.add_argument("--json", action="store_true", help="print one JSON object for each receipt")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Publishes. A refused message, and those after it in a file, are not stored."""
    settings = settings_of(chosen)
    if chosen.jsonl is None:
        message = _one(chosen)
        with open_queue(chosen, settings, create=True) as store:
            _tell(chosen, [message], store.publish_many([message]))
        return Exit.DONE
    if chosen.body is not None or any(value for name, value in _given(chosen).items() if name != "deduplicate"):
        raise UsageError(
            "--jsonl: each line says what its message is; only SUBJECT and --deduplicate may stand beside it"
        )
    with open_queue(chosen, settings, create=True) as store:
        _many(chosen, store)
    return Exit.DONE


GIVEN = ("delay", "at", "level", "message_id", "key", "if_exists", "deduplicate", "jitter", "expires", "on_expiry")


def _given(chosen: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the message, without its subject and body."""
    given = {name: getattr(chosen, name) for name in GIVEN}
    given = {name: value for name, value in given.items() if value is not None}
    if chosen.tags:
        given["tags"] = tuple(chosen.tags)
    if attributes := attributes_of(chosen):
        given["attributes"] = attributes
    return given


def _one(chosen: argparse.Namespace) -> Publish:
    if chosen.subject is None or chosen.body is None:
        raise UsageError(
            "expected SUBJECT and BODY (- reads it from standard input), or --jsonl FILE; see `delaymq publish --help`"
        )
    body = standard_input("BODY").read() if chosen.body == "-" else os.fsencode(chosen.body)
    return Publish(chosen.subject, body, **_given(chosen))


def _many(chosen: argparse.Namespace, store: Queue) -> None:
    for first, lines in _batches(_lines(chosen.jsonl), chosen.subject):
        batch = [replace(message, deduplicate=True) for message in lines] if chosen.deduplicate else lines
        try:
            receipts = store.publish_many(batch)
        except DelaymqError as error:
            at = f"line {first + error.index}" if error.index is not None else f"lines {first} and following"
            error.args = (*error.args[:-1], f"{at}: {error}")
            raise
        _tell(chosen, batch, receipts)


def _lines(name: str) -> Iterator[list[bytes]]:
    """Yields whole lines, as many at a time as have arrived."""
    if name == "-" and standard_input_is_a_terminal():
        print("delaymq: reading messages, one JSON object a line; end with Ctrl-D", file=sys.stderr)
    try:
        descriptor = standard_input("--jsonl").fileno() if name == "-" else os.open(name, os.O_RDONLY)
        rest = b""
        while piece := os.read(descriptor, READ_BYTES):
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise UsageError(f"{name}: a line is longer than {LINE_BYTES_MAX:,} bytes")
            if whole:
                yield whole
        if rest:
            yield [rest]
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error


def _batches(arriving: Iterator[list[bytes]], subject: str | None) -> Iterator[tuple[int, list[Publish]]]:
    """Yields messages in batches, each with the number of its first line. Empty lines are ignored."""
    number = 0
    for lines in arriving:
        batch: list[Publish] = []
        first, size = number + 1, 0
        for line in lines:
            number += 1
            blank = not line.strip()
            if batch and (blank or len(batch) >= BATCH_MESSAGES or size + len(line) > BATCH_BYTES):
                yield first, batch
                batch, size = [], 0
            if not blank:
                if not batch:
                    first = number
                try:
                    batch.append(message_of(line, number, subject))
                except UsageError:
                    if batch:
                        yield first, batch
                    raise
                size += len(line)
        if batch:
            yield first, batch


def _tell(chosen: argparse.Namespace, messages: Sequence[Publish], receipts: Sequence[Receipt]) -> None:
    for message, receipt in zip(messages, receipts, strict=True):
        if chosen.json:
            said = {
                "receipt": str(receipt),
                "subject": message.subject,
                "due": receipt.due.isoformat(),
                "sequence": receipt.sequence,
            }
            print(json.dumps(said, ensure_ascii=False))
        else:
            print(receipt)
    sys.stdout.flush()
