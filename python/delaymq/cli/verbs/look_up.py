"""`delaymq look-up`: shows what became of messages, by their receipts or by their keys."""

from __future__ import annotations

import argparse
import json
import sys

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.administered import administered
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.keys import add_names, line_of_key, named_keys
from delaymq.cli.input.receipts import asked_of, parts_of, read_receipts
from delaymq.cli.input.stores import add_place
from delaymq.cli.output.terminal import table
from delaymq.pending import Fate

__all__ = ["add_to", "run"]

EXAMPLES = (
    'delaymq look-up "$(cat receipt)" --store ./data',
    "delaymq look-up --subject order.timeout --key 17 --store ./data",
    "delaymq look-up - --json --server delaymq://127.0.0.1:20801 <receipts",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "look-up",
        run,
        summary="show what became of messages, by their receipts or by their keys",
        details="Prints whether each message is pending, dispatched, cancelled or not_found. Changes nothing.",
        examples=EXAMPLES,
    )
    add_names(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Looks up the messages. If a receipt cannot be read, none is looked up."""
    if (named := named_keys(chosen)) is not None:
        with administered(chosen) as store:
            held = [store.look_up_key(named.subject, key) for key in named.keys]
        for key, receipt in zip(named.keys, held, strict=True):
            fate = Fate.NOT_FOUND if receipt is None else Fate.PENDING
            more = {
                "receipt": None if receipt is None else str(receipt),
                "due": None if receipt is None else receipt.due.isoformat(),
            }
            print(line_of_key(named.subject, key, fate.value, more, as_json=chosen.json))
        return Exit.PART if None in held else Exit.DONE
    given = read_receipts(chosen.receipts)
    found = []
    with administered(chosen) as store:
        for part in parts_of(given):
            with asked_of(part) as receipts:
                found += store.look_up_many(receipts)
    if chosen.json:
        for that, one in zip(given, found, strict=True):
            said = {"receipt": that.text, "fate": one.fate.value, "subject": one.subject or None}
            print(json.dumps(said | {"due": one.due.isoformat(), "size": one.size}, ensure_ascii=False))
    else:
        rows = [
            (one.fate.value, f"{one.due:%Y-%m-%d %H:%M:%S}", one.subject, _size(one.size), that.text)
            for that, one in zip(given, found, strict=True)
        ]
        print(table(("fate", "due (UTC)", "subject", "bytes", "receipt"), rows, sys.stdout))
    return Exit.PART if any(one.fate is Fate.NOT_FOUND for one in found) else Exit.DONE


def _size(size: int | None) -> int | str:
    return "" if size is None else size
