"""`delaymq status`: shows what a store holds, and its state."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.stores import add_place, open_queue, place_in, settings_of
from delaymq.cli.output.clock_hold import hold_line
from delaymq.cli.output.terminal import alarming, byte_words, count_words, message_words
from delaymq.status import Status


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "status",
        run,
        summary="show how many messages a store holds, and its state",
        details="Opens a store in a folder. Use `delaymq inspect` for a store that another process has open.",
        examples=(
            "delaymq status --server delaymq://127.0.0.1:20801",
            "delaymq status --server delaymq://127.0.0.1:20801 --json | jq .pending",
            "delaymq status --store ./data",
        ),
    )
    verb.add_argument("--json", action="store_true", help="one JSON object")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Prints the status once."""
    settings = settings_of(chosen)
    with open_queue(chosen, settings) as store:
        found = store.status()
        hold = hold_line(store.clock(), place_in(chosen, settings)) if found.held else None
    if chosen.json:
        print(json.dumps(dataclasses.asdict(found), ensure_ascii=False))
    else:
        print("\n".join(_lines(found, hold)))
    return Exit.DONE


def _lines(found: Status, hold: str | None) -> Iterator[str]:
    if hold is not None:
        yield f"{alarming('TROUBLE', sys.stdout)}: {hold}"
    yield f"{found.pending:,} pending; {found.ready:,} ready"
    yield (
        f"durable as {found.durability} says, epoch {found.epoch}; "
        f"recovered in {found.recovered_ms:,} ms ({count_words(found.recovered_facts, 'fact')})"
    )
    yield f"time zone rules: {found.zones}"
    troubles = (
        (found.poisoned is not None, f"it takes nothing until it is opened again: {found.poisoned}"),
        (found.disk_full, "the disk is full, or below its mark: publishes are refused"),
        (found.room_low, f"{byte_words(found.free_bytes or 0)} of the disk are free: that is little"),
        (found.voided, f"given up as damaged: {message_words(found.voided)}"),
    )
    for is_so, words in troubles:
        if is_so:
            yield f"{alarming('TROUBLE', sys.stdout)}: {words}"
    if found.hot_minutes:
        minutes = "minutes with more due than hot_minute_messages allows for"
        yield f"{minutes}: {found.hot_minutes:,}; see `delaymq forecast`"
    if found.expired:
        yield f"expired: {message_words(found.expired)}"
    for aside in found.aside:
        yield f"set aside by this open: {aside}"
