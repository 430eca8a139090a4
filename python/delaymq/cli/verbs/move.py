"""`delaymq move`: gives pending messages another due time, by their receipts or by their keys."""

from __future__ import annotations

import argparse

from delaymq.cli.input.arguments import Verbs, add_times, add_verb
from delaymq.cli.input.named_messages import add_id, add_names
from delaymq.cli.input.stores import add_place
from delaymq.cli.verbs.cancel import change


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "move",
        run,
        summary="give pending messages another due time, by their receipts or by their keys",
        details="Prints the outcome of each: done, with its new receipt, already_dispatched or not_found.",
        examples=(
            'delaymq move "$(cat receipt)" --delay 30m --store ./data >receipt.new',
            "delaymq move --subject order.timeout --key 17 --key 18 --delay 30m --store ./data",
            "delaymq move - --at 2030-12-31T18:00:00Z --json --server delaymq://127.0.0.1:20801 <receipts",
        ),
    )
    add_names(verb)
    add_id(verb)
    add_times(verb.add_mutually_exclusive_group(required=True))
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Moves the messages. If a receipt cannot be read, none is moved."""
    times = {"delay": chosen.delay, "at": chosen.at}
    return change(chosen, lambda store: (store.move_key, store.move_keys, store.move_many), **times)
