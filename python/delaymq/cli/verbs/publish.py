"""`delaymq publish`: publishes one message from the command line, or many from standard input."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.json_lines import message_of
from delaymq.cli.input.publish_options import add_options, options_of
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
    add_options(verb)
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
    if chosen.body is not None or any(value for name, value in options_of(chosen).items() if name != "deduplicate"):
        raise UsageError(
            "--jsonl: each line says what its message is; only SUBJECT and --deduplicate may stand beside it"
        )
    with open_queue(chosen, settings, create=True) as store:
        _many(chosen, store)
    return Exit.DONE


def _one(chosen: argparse.Namespace) -> Publish:
    if chosen.subject is None or chosen.body is None:
        raise UsageError(
            "expected SUBJECT and BODY (- reads it from standard input), or --jsonl FILE; see `delaymq publish --help`"
        )
    body = standard_input("BODY").read() if chosen.body == "-" else os.fsencode(chosen.body)
    return Publish(chosen.subject, body, **options_of(chosen))


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
