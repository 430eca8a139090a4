"""`delaymq move`: gives pending messages another due time, by their receipts or by their keys."""

from __future__ import annotations

import argparse
import json

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb, delay, moment
from delaymq.cli.input.keys import add_id, add_names, asked_of_keys, line_of_key, named_keys
from delaymq.cli.input.receipts import asked_of, parts_of, read_receipts
from delaymq.cli.input.stores import add_place, open_queue, settings_of
from delaymq.receipt import Moved, Outcome

__all__ = ["add_to", "run"]

EXAMPLES = (
    'delaymq move "$(cat receipt)" --delay 30m --store ./data >receipt.new',
    "delaymq move --subject order.timeout --key 17 --key 18 --delay 30m --store ./data",
    "delaymq move - --at 2030-12-31T18:00:00Z --json --server delaymq://127.0.0.1:20801 <receipts",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "move",
        run,
        summary="give pending messages another due time, by their receipts or by their keys",
        details="Prints the outcome of each: done, with its new receipt, already_dispatched or not_found.",
        examples=EXAMPLES,
    )
    add_names(verb)
    add_id(verb)
    when = verb.add_mutually_exclusive_group(required=True)
    when.add_argument("--delay", type=delay, metavar="TIME", help="delay from now: 250ms, 10s, 1h30m, 7d")
    when.add_argument("--at", type=moment, metavar="TIME", help="time with its zone: 2030-12-31T18:00:00Z")
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Moves the messages. If a receipt cannot be read, none is moved."""
    settings = settings_of(chosen)
    if (named := named_keys(chosen)) is not None:
        with open_queue(chosen, settings) as store, asked_of_keys(named) as keys:
            times = {"delay": chosen.delay, "at": chosen.at, "command_id": chosen.command_id}
            if len(keys) == 1:  # servers of the first releases know only this command
                answers = [store.move_key(named.subject, keys[0], **times)]
            else:
                answers = store.move_keys(named.subject, keys, **times)
        for key, found in zip(keys, answers, strict=True):
            print(line_of_key(named.subject, key, found.outcome.value, _new(found), as_json=chosen.json))
        return Exit.DONE if all(found.outcome is Outcome.DONE for found in answers) else Exit.PART
    given = read_receipts(chosen.receipts)
    code = Exit.DONE
    with open_queue(chosen, settings) as store:
        for part in parts_of(given):
            with asked_of(part) as receipts:
                answers = store.move_many(receipts, delay=chosen.delay, at=chosen.at)
            for one, moved in zip(part, answers, strict=True):
                if moved.outcome is not Outcome.DONE:
                    code = Exit.PART
                print(_line(one.text, moved, as_json=chosen.json))
    return code


def _line(text: str, moved: Moved, *, as_json: bool) -> str:
    receipt = moved.receipt
    if not as_json:
        return f"{moved.outcome.value}  {text if receipt is None else receipt}"
    return json.dumps({"receipt": text, "outcome": moved.outcome.value} | _new(moved))


def _new(moved: Moved) -> dict[str, str | None]:
    receipt = moved.receipt
    return {
        "new_receipt": None if receipt is None else str(receipt),
        "due": None if receipt is None else receipt.due.isoformat(),
    }
