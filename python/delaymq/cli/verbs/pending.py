"""`delaymq pending`: lists pending messages, or counts them by subject."""

from __future__ import annotations

import argparse
import itertools
import sys

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb, count, moment
from delaymq.cli.input.stores import add_place, open_queue
from delaymq.cli.output.terminal import print_list
from delaymq.pending import Pending, PendingList

LIMIT = 100


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "pending",
        run,
        summary="list pending messages, the earliest first, or count them by subject",
        details="Changes nothing, and delays no message. Without SUBJECT and --prefix, lists the messages "
        "that users published; --prefix % lists retries, and --prefix '' everything.",
        examples=(
            "delaymq pending order.timeout --store ./data",
            "delaymq pending --prefix order. --due-before 2030-01-01T00:00:00Z --json --limit 1000 --store ./data",
            "delaymq pending --counts --server delaymq://127.0.0.1:20801",
        ),
    )
    verb.add_argument("subject", nargs="?", metavar="SUBJECT", help="only this subject")
    verb.add_argument("--prefix", metavar="TEXT", help="only subjects whose names begin with this")
    verb.add_argument("--due-from", type=moment, metavar="TIME", help="only messages due at this time or later")
    verb.add_argument("--due-before", type=moment, metavar="TIME", help="only messages due before this time")
    verb.add_argument("--after", metavar="CURSOR", help="go on after the cursor that an earlier list printed")
    verb.add_argument(
        "--limit", type=count, default=LIMIT, metavar="N", help=f"the largest number to list (default {LIMIT})"
    )
    verb.add_argument(
        "--counts", action="store_true", help="print the number of pending messages of each subject, and no list"
    )
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Lists or counts."""
    of_a_list = (("--due-from", chosen.due_from), ("--due-before", chosen.due_before), ("--after", chosen.after))
    given = [option for option, value in of_a_list if value is not None]
    if chosen.counts and given:
        raise UsageError(f"{given[0]} goes with a list: --counts says all that is pending of a subject")
    with open_queue(chosen) as store:
        if chosen.counts:
            counts = store.pending_counts(chosen.subject, prefix=chosen.prefix).items()
            heads: tuple[str, ...] = ("subject", "pending")
            print_list(
                counts,
                lambda row: dict(zip(heads, row, strict=True)),
                heads,
                tuple,
                as_json=chosen.json,
                nothing="no subjects",
            )
            return Exit.DONE
        entries = store.pending(
            chosen.subject,
            prefix=chosen.prefix,
            due_from=chosen.due_from,
            due_before=chosen.due_before,
            after=chosen.after,
        )
        shown = itertools.islice(entries, chosen.limit)
        heads = ("due (UTC)", "subject", "attempt", "receipt")
        number = print_list(shown, _said, heads, _row, as_json=chosen.json, nothing="nothing is pending")
        return _end(entries, is_cut=number == chosen.limit)


def _counted(row: tuple[str, int]) -> dict[str, object]:
    return {"subject": row[0], "pending": row[1]}


def _said(one: Pending) -> dict[str, object]:
    said = {"subject": one.subject, "due": one.due.isoformat(), "attempt": one.attempt, "sequence": one.sequence}
    return said | {"receipt": str(one.receipt)}


def _row(one: Pending) -> tuple[str, str, int, str]:
    return f"{one.due:%Y-%m-%d %H:%M:%S}", one.subject, one.attempt, str(one.receipt)


def _end(entries: PendingList, *, is_cut: bool) -> int:
    """Tells people where to go on and what was not shown. Standard output has only the list."""
    for one in entries.hidden:
        words = f"{one.path}: block {one.block} cannot be read, up to {one.rows} entries are not shown: {one.reason}"
        print(f"delaymq: {words}", file=sys.stderr)
    if is_cut:
        print(f"there may be more: go on with --after {entries.after}", file=sys.stderr)
    return Exit.PART if entries.hidden else Exit.DONE
