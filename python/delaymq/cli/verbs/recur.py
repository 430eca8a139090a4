"""`delaymq recur`: begins, ends and lists series of messages."""

from __future__ import annotations

import argparse
import json
import os
from datetime import timedelta
from typing import Any

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import (
    CommandParser,
    Verbs,
    add_attributes,
    add_on_expiry,
    add_verb,
    attributes_of,
    delay,
    moment,
)
from delaymq.cli.input.stores import add_place, open_queue
from delaymq.cli.output.streams import standard_input
from delaymq.cli.output.terminal import print_list
from delaymq.recurring import Recurring

EXAMPLES = (
    "delaymq recur add checks disks --name disks --every 15m --store ./data",
    "delaymq recur add reports sales --name daily --cron '30 9 * * mon-fri' --zone Europe/Berlin --store ./data",
    "delaymq recur list --store ./data",
    "delaymq recur end reports daily --server delaymq://127.0.0.1:20801",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    summary = "send a message again and again; list and end such series"
    verb = add_verb(verbs, "recur", None, summary=summary, examples=EXAMPLES)
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    _add_add(parts)
    end = add_verb(
        parts,
        "end",
        run_end,
        summary="end a series by its name, and cancel its pending message",
        details="Prints ended, or not_found if there is no series of that name.",
        examples=EXAMPLES[3:],
    )
    end.add_argument("subject", metavar="SUBJECT", help="subject of the series")
    end.add_argument("name", metavar="NAME", help="name of the series")
    end.add_argument("--json", action="store_true", help="one JSON object")
    add_place(end)
    listing = add_verb(parts, "list", run_list, summary="list all series", examples=EXAMPLES[2:3])
    listing.add_argument("--subject", metavar="SUBJECT", help="only this subject")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(listing)


def _add_add(parts: Verbs) -> None:
    verb = add_verb(
        parts,
        "add",
        run_add,
        summary="begin a series, which sends a message at the times of a rule, one pending at a time",
        details="Prints the receipt of the first message, which `delaymq cancel` takes.",
        examples=EXAMPLES[:2],
    )
    verb.add_argument("subject", metavar="SUBJECT", help="subject to publish on")
    verb.add_argument("body", metavar="BODY", help="the message; - reads it from standard input")
    verb.add_argument("--name", required=True, metavar="TEXT", help="your own name for the series")
    when = verb.add_mutually_exclusive_group(required=True)
    when.add_argument("--every", type=delay, metavar="TIME", help="time between two messages: 10s, 1h30m, 7d")
    when.add_argument(
        "--cron", metavar="PATTERN", help="five fields, six with seconds first, or @daily: '30 9 * * mon-fri'"
    )
    verb.add_argument(
        "--zone", default="UTC", metavar="NAME", help="time zone of the pattern: Europe/Berlin (default UTC)"
    )
    verb.add_argument(
        "--start", type=moment, metavar="TIME", help="no message is due before this: 2030-12-31T18:00:00Z"
    )
    verb.add_argument(
        "--catch-up",
        choices=("one", "skip", "all"),
        default="one",
        help="which missed times happen after the store was closed: the last (the default), none, all",
    )
    verb.add_argument(
        "--if-exists",
        choices=("replace", "keep", "error"),
        default="error",
        help="what to do if the subject has a series of that name: replace it, leave it, or fail (the default)",
    )
    verb.add_argument(
        "--expires-after", type=delay, metavar="TIME", help="each message is of use for so long after its due time: 30m"
    )
    add_on_expiry(verb)
    add_attributes(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object")
    add_place(verb)


def run_add(chosen: argparse.Namespace) -> int:
    """Begins a series."""
    body = standard_input("BODY").read() if chosen.body == "-" else os.fsencode(chosen.body)
    attributes = attributes_of(chosen)
    with open_queue(chosen) as store:
        begun = store.recur(
            chosen.subject,
            body,
            name=chosen.name,
            every=chosen.every,
            cron=chosen.cron,
            zone=chosen.zone,
            start=chosen.start,
            catch_up=chosen.catch_up,
            if_exists=chosen.if_exists,
            tags=tuple(chosen.tags),
            attributes=attributes,
            expires_after=chosen.expires_after,
            on_expiry=chosen.on_expiry,
        )
    print(json.dumps(_said(begun), ensure_ascii=False) if chosen.json else begun.receipt or begun.name)
    return Exit.DONE


def run_end(chosen: argparse.Namespace) -> int:
    """Ends a series."""
    with open_queue(chosen) as store:
        outcome = "ended" if store.end_recurring(chosen.subject, chosen.name) else "not_found"
    said = {"subject": chosen.subject, "name": chosen.name, "outcome": outcome}
    print(json.dumps(said, ensure_ascii=False) if chosen.json else f"{outcome}  {chosen.name}")
    return Exit.DONE if outcome == "ended" else Exit.PART


def run_list(chosen: argparse.Namespace) -> int:
    """Lists all series."""
    with open_queue(chosen) as store:
        found = store.recurring(chosen.subject)
    heads = ("subject", "name", "rule", "zone", "catch up", "due (UTC)")
    print_list(found, _said, heads, _row, as_json=chosen.json, nothing="nothing recurs")
    return Exit.DONE


def _row(one: Recurring) -> tuple[str, ...]:
    due = "" if one.due is None else f"{one.due:%Y-%m-%d %H:%M:%S}"
    return one.subject, one.name, one.cron or f"every {one.every}", one.zone, one.catch_up, due


def _said(one: Recurring) -> dict[str, Any]:
    return {
        "subject": one.subject,
        "name": one.name,
        "every_ms": None if one.every is None else round(one.every.total_seconds() * 1_000),
        "cron": one.cron,
        "zone": one.zone,
        "catch_up": one.catch_up,
        "expires_after_ms": None if one.expires_after is None else one.expires_after // timedelta(milliseconds=1),
        "on_expiry": one.on_expiry,
        "due": None if one.due is None else one.due.isoformat(),
        "receipt": None if one.receipt is None else str(one.receipt),
    }
