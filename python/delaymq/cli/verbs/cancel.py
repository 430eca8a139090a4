"""`delaymq cancel`: cancels pending messages by their receipts, or by their keys."""

from __future__ import annotations

import argparse
import json

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.keys import add_id, add_names, asked_of_keys, line_of_key, named_keys
from delaymq.cli.input.receipts import asked_of, parts_of, read_receipts
from delaymq.cli.input.stores import add_place, open_queue, settings_of
from delaymq.receipt import Outcome

__all__ = ["add_to", "run"]

EXAMPLES = (
    'delaymq cancel "$(cat receipt)" --store ./data',
    "delaymq cancel --subject order.timeout --key 17 --key 18 --store ./data",
    "delaymq cancel - --json --server delaymq://127.0.0.1:20801 <receipts",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "cancel",
        run,
        summary="cancel pending messages by their receipts, or by their keys",
        details="Prints the outcome of each: done, already_dispatched or not_found.",
        examples=EXAMPLES,
    )
    add_names(verb)
    add_id(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Cancels the messages. If a receipt cannot be read, none is cancelled."""
    settings = settings_of(chosen)
    if (named := named_keys(chosen)) is not None:
        with open_queue(chosen, settings) as store, asked_of_keys(named) as keys:
            if len(keys) == 1:  # servers of the first releases know only this command
                outcomes = [store.cancel_key(named.subject, keys[0], command_id=chosen.command_id)]
            else:
                outcomes = store.cancel_keys(named.subject, keys, command_id=chosen.command_id)
        for key, outcome in zip(keys, outcomes, strict=True):
            print(line_of_key(named.subject, key, outcome.value, {}, as_json=chosen.json))
        return Exit.DONE if all(outcome is Outcome.DONE for outcome in outcomes) else Exit.PART
    given = read_receipts(chosen.receipts)
    code = Exit.DONE
    with open_queue(chosen, settings) as store:
        for part in parts_of(given):
            with asked_of(part) as receipts:
                outcomes = store.cancel_many(receipts)
            for one, outcome in zip(part, outcomes, strict=True):
                if outcome is not Outcome.DONE:
                    code = Exit.PART
                said = {"receipt": one.text, "outcome": outcome.value}
                print(json.dumps(said) if chosen.json else f"{outcome.value}  {one.text}")
    return code
