"""`delaymq dead`: lists dead letters, and moves them back to their group."""

from __future__ import annotations

import argparse
import json
from typing import Any

from delaymq.administration import DeadLetter
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb, count
from delaymq.cli.input.json_lines import body_of
from delaymq.cli.input.stores import add_place, open_queue
from delaymq.cli.output.terminal import print_list

LIMIT = 100
BODY_COLUMNS = 40

EXAMPLES = (
    "delaymq dead list order.timeout billing --store ./data",
    "delaymq dead list order.timeout billing --json --limit 1000 --store ./data",
    "delaymq dead redrive order.timeout billing --limit 10 --server delaymq://127.0.0.1:20801",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(verbs, "dead", None, summary="list dead letters, and move them back", examples=EXAMPLES)
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    listing = add_verb(
        parts,
        "list",
        run_list,
        summary="list the dead letters of a group, the oldest first",
        details="Changes nothing.",
        examples=EXAMPLES[:2],
    )
    _add_names(listing)
    listing.add_argument(
        "--limit", type=count, default=LIMIT, metavar="N", help=f"the largest number to list (default {LIMIT})"
    )
    redrive = add_verb(
        parts,
        "redrive",
        run_redrive,
        summary="move dead letters back to their group; their deliveries count from 1 again",
        examples=EXAMPLES[2:],
    )
    _add_names(redrive)
    redrive.add_argument(
        "--limit", type=count, metavar="N", help="the largest number to move, the oldest first (default: all)"
    )


def _add_names(verb: CommandParser) -> None:
    verb.add_argument("subject", metavar="SUBJECT", help="the subject")
    verb.add_argument("group", metavar="GROUP", help="the group of the dead letters")
    verb.add_argument("--json", action="store_true", help="JSON, one object on a line")
    add_place(verb)


def run_list(chosen: argparse.Namespace) -> int:
    """Lists dead letters."""
    with open_queue(chosen) as store:
        letters = store.dead_letters(chosen.subject, chosen.group, limit=chosen.limit)
    heads = ("number", "died (UTC)", "attempt", "reason", "body")
    print_list(letters, _said, heads, _row, as_json=chosen.json, nothing="no dead letters")
    return Exit.DONE


def run_redrive(chosen: argparse.Namespace) -> int:
    """Moves dead letters back."""
    with open_queue(chosen) as store:
        moved = store.redrive(chosen.subject, chosen.group, limit=chosen.limit)
    words = f"{moved:,} dead letters were moved back to group {chosen.group} of {chosen.subject}"
    print(json.dumps({"redriven": moved}) if chosen.json else words)
    return Exit.DONE


def _said(letter: DeadLetter) -> dict[str, Any]:
    return {
        "number": letter.number,
        **body_of(letter.body),
        "reason": letter.reason,
        "attempt": letter.attempt,
        "died": letter.died.isoformat(),
        "damage": letter.damage,
    }


def _row(letter: DeadLetter) -> tuple[object, ...]:
    """Returns the cells of the table; the last one is the beginning of the body on one line, or its damage."""
    text = "".join(one if one.isprintable() else "." for one in letter.body.decode(errors="replace"))
    shown = text if len(text) <= BODY_COLUMNS else f"{text[: BODY_COLUMNS - 1]}…"
    damage = None if letter.damage is None else f"DAMAGED: {letter.damage}"
    return letter.number, f"{letter.died:%Y-%m-%d %H:%M:%S}", letter.attempt, letter.reason, damage or shown
