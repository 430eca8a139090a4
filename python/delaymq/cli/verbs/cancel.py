"""`delaymq cancel`: cancels pending messages by their receipts, or by their keys."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.named_messages import (
    add_id,
    add_names,
    line_of,
    named_keys,
    naming,
    parts_of,
    read_receipts,
)
from delaymq.cli.input.stores import Queue, add_place, open_queue, settings_of
from delaymq.receipt import Moved, Outcome


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "cancel",
        run,
        summary="cancel pending messages by their receipts, or by their keys",
        details="Prints the outcome of each: done, already_dispatched or not_found.",
        examples=(
            'delaymq cancel "$(cat receipt)" --store ./data',
            "delaymq cancel --subject order.timeout --key 17 --key 18 --store ./data",
            "delaymq cancel - --json --server delaymq://127.0.0.1:20801 <receipts",
        ),
    )
    add_names(verb)
    add_id(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Cancels the messages. If a receipt cannot be read, none is cancelled."""
    return change(chosen, lambda store: (store.cancel_key, store.cancel_keys, store.cancel_many))


def change(
    chosen: argparse.Namespace, commands_of: Callable[[Queue], tuple[Callable[..., Any], ...]], **times: object
) -> int:
    """Cancels or moves the messages that the command line names, and prints the outcome of each.

    Args:
        chosen: The arguments of the verb.
        commands_of: The methods of a store for a key, for keys and for receipts.
        times: Further arguments of these methods.
    """
    settings = settings_of(chosen)
    if (named := named_keys(chosen)) is not None:
        times["command_id"] = chosen.command_id
        with open_queue(chosen, settings) as store, naming(named.places):
            of_key, of_keys, _ = commands_of(store)
            if len(named.keys) == 1:  # servers of the first releases know only this command
                answers = [of_key(named.subject, named.keys[0], **times)]
            else:
                answers = of_keys(named.subject, named.keys, **times)
        return _told(chosen, [{"subject": named.subject, "key": key} for key in named.keys], answers)
    given = read_receipts(chosen.receipts)
    code = Exit.DONE
    with open_queue(chosen, settings) as store:
        for part in parts_of(given):
            with naming([one.place for one in part]):
                answers = commands_of(store)[2]([one.receipt for one in part], **times)
            code = max(code, _told(chosen, [{"receipt": one.text} for one in part], answers))
    return code


def _told(chosen: argparse.Namespace, named: Sequence[dict[str, str]], answers: Sequence[Outcome | Moved]) -> Exit:
    """Prints the outcome of each message, and returns the exit code."""
    code = Exit.DONE
    for one, answer in zip(named, answers, strict=True):
        more: dict[str, str | None] = {}
        if isinstance(answer, Moved):
            receipt = answer.receipt
            more["new_receipt"] = None if receipt is None else str(receipt)
            more["due"] = None if receipt is None else receipt.due.isoformat()
        outcome = answer.outcome if isinstance(answer, Moved) else answer
        print(line_of(one, outcome.value, more, as_json=chosen.json))
        if outcome is not Outcome.DONE:
            code = Exit.PART
    return code
