"""`delaymq look-up`: shows what became of messages, by their receipts or by their keys."""

from __future__ import annotations

import argparse

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.named_messages import Given, add_names, line_of, named_keys, naming, parts_of, read_receipts
from delaymq.cli.input.stores import add_place, open_queue
from delaymq.cli.output.terminal import print_list
from delaymq.pending import Fate, LookedUp


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "look-up",
        run,
        summary="show what became of messages, by their receipts or by their keys",
        details="Prints whether each message is pending, dispatched, cancelled or not_found. Changes nothing.",
        examples=(
            'delaymq look-up "$(cat receipt)" --store ./data',
            "delaymq look-up --subject order.timeout --key 17 --store ./data",
            "delaymq look-up - --json --server delaymq://127.0.0.1:20801 <receipts",
        ),
    )
    add_names(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Looks up the messages. If a receipt cannot be read, none is looked up."""
    if (named := named_keys(chosen)) is not None:
        with open_queue(chosen) as store:
            held = [store.look_up_key(named.subject, key) for key in named.keys]
        for key, one in zip(named.keys, held, strict=True):
            more: dict[str, str | None] = {"receipt": None, "due": None}
            if (receipt := one.receipt) is not None:
                more = {"receipt": str(receipt), "due": receipt.due.isoformat()}
            print(line_of({"subject": named.subject, "key": key}, one.fate.value, more, as_json=chosen.json))
        return Exit.PART if any(one.fate is Fate.NOT_FOUND for one in held) else Exit.DONE
    given = read_receipts(chosen.receipts)
    found: list[LookedUp] = []
    with open_queue(chosen) as store:
        for part in parts_of(given):
            with naming([one.place for one in part]):
                found += store.look_up_many([one.receipt for one in part])
    heads = ("fate", "due (UTC)", "subject", "bytes", "receipt")
    print_list(zip(given, found, strict=True), _said, heads, _row, as_json=chosen.json)
    return Exit.PART if any(one.fate is Fate.NOT_FOUND for one in found) else Exit.DONE


def _said(of: tuple[Given, LookedUp]) -> dict[str, object]:
    that, one = of
    said = {"receipt": that.text, "fate": one.fate.value, "subject": one.subject or None}
    return {**said, "due": that.receipt.due.isoformat(), "size": one.size}


def _row(of: tuple[Given, LookedUp]) -> tuple[object, ...]:
    that, one = of
    size = "" if one.size is None else one.size
    return one.fate.value, f"{that.receipt.due:%Y-%m-%d %H:%M:%S}", one.subject, size, that.text
