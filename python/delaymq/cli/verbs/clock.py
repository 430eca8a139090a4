"""`delaymq clock`: shows the clock of a store, and accepts a step of the wall clock that holds dispatch."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb
from delaymq.cli.input.stores import add_place, open_queue, place_in, settings_of
from delaymq.cli.output.clock_hold import hold_line
from delaymq.durations import moment
from delaymq.status import ClockStatus

EXAMPLES = (
    "delaymq clock status --server delaymq://127.0.0.1:20801",
    "delaymq clock status --json --server delaymq://127.0.0.1:20801 | jq .ahead_ms",
    "delaymq clock accept --ahead-ms 3600000 --server delaymq://127.0.0.1:20801",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs, "clock", None, summary="show the clock, and accept a step that holds dispatch", examples=EXAMPLES
    )
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    status = add_verb(
        parts,
        "status",
        run_status,
        summary="show the clock, and why dispatch is held, if it is",
        details="Use --server for a store that a server has open.",
        examples=EXAMPLES[:2],
    )
    status.add_argument("--json", action="store_true", help="one JSON object")
    add_place(status)
    accept = add_verb(
        parts,
        "accept",
        run_accept,
        summary="accept the step of the wall clock that holds dispatch",
        details="Do this only if the wall clock is right now: a wrong clock makes messages early.",
        examples=EXAMPLES[2:],
    )
    accept.add_argument(
        "--ahead-ms",
        type=int,
        metavar="MS",
        help="the step that you saw, as `clock status` shows it; no other one is accepted (default: the present one)",
    )
    accept.add_argument("--json", action="store_true", help="one JSON object")
    add_place(accept)


def run_status(chosen: argparse.Namespace) -> int:
    """Prints the clock once."""
    settings = settings_of(chosen)
    with open_queue(chosen, settings) as store:
        found = store.clock()
    if chosen.json:
        print(json.dumps(dataclasses.asdict(found), ensure_ascii=False))
    else:
        print("\n".join(_lines(found, place_in(chosen, settings))))
    return Exit.DONE


def _lines(found: ClockStatus, place: str) -> Iterator[str]:
    yield hold_line(found, place) or "dispatch is not held"
    side = "ahead" if found.ahead_ms >= 0 else "behind"
    yield f"trusted clock {moment(found.now_ms).isoformat()}; wall clock {abs(found.ahead_ms):,} ms {side}"
    says = "keeps" if found.is_synchronised else "does not report that a time service keeps"
    who = "a time service" if found.is_synchronised else "the kernel"
    yield f"{who} {says} the wall clock right"


def run_accept(chosen: argparse.Namespace) -> int:
    """Accepts a step."""
    settings = settings_of(chosen)
    with open_queue(chosen, settings) as store:
        ahead_ms = _present_step(store.clock()) if chosen.ahead_ms is None else chosen.ahead_ms
        accepted_ms = store.accept_clock(ahead_ms)
    if chosen.json:
        print(json.dumps({"accepted_ms": accepted_ms}))
    else:
        print(f"the step is accepted: the trusted clock goes on {accepted_ms:,} ms later, and dispatch goes on")
    return Exit.DONE


def _present_step(found: ClockStatus) -> int:
    """Returns how far the wall clock is ahead.

    Raises:
        UsageError: No step ahead holds dispatch.
    """
    if found.words is None:
        raise UsageError("there is no step to accept: dispatch is not held")
    if found.ahead_ms < 0:
        raise UsageError(f"there is no step to accept: {found.words}")
    return found.ahead_ms
