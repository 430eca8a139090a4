"""`delaymq salvage`: saves what can be read of a store that can no longer be opened."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delaymq import _core
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.stores import add_files, folder_of, settings_of
from delaymq.cli.output.terminal import Bar, alarming, count_words, message_words, table
from delaymq.durations import moment
from delaymq.errors import StoreError

ROWS_MAX = 20

DETAILS = (
    "Changes nothing unless --into names a new folder and --yes says that you have read the list. Then it writes "
    "the messages that can be read into a new store there, with their due times. It never changes the damaged "
    "store. If a message may or may not have been finished, it is kept, so some messages may come twice."
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "salvage",
        run,
        summary="list the losses of a damaged store, and save the rest into a new one",
        details=DETAILS,
        examples=(
            "delaymq salvage --store ./data",
            "delaymq salvage --store ./data --json >salvage.json",
            "delaymq salvage --store ./data --into ./saved --yes",
        ),
    )
    verb.add_argument("--into", type=Path, metavar="NEWFOLDER", help="folder of the new store; new or empty")
    verb.add_argument("--yes", action="store_true", help="write the new store")
    verb.add_argument("--all", action="store_true", help=f"every row of each list, not the first {ROWS_MAX}")
    verb.add_argument("--json", action="store_true", help="one JSON object")
    add_files(verb, "give --store DIR where they lie, when the server has ended")


def run(chosen: argparse.Namespace) -> int:
    """Lists the losses, and writes the new store if requested. Returns 1 if anything is damaged or lost."""
    folder = os.fspath(folder_of(chosen, settings_of(chosen)))
    if chosen.yes and chosen.into is None:
        raise UsageError("--yes: expected --into NEWFOLDER beside it")
    writes = chosen.into is not None and chosen.yes
    try:
        found = _core.salvage(folder, None, None)
        found["written"] = False
        if not chosen.json:
            _tell(_lines(found, folder, sys.maxsize if chosen.all else ROWS_MAX))
        if writes:
            _write(folder, os.fspath(chosen.into), found)
    except StoreError as error:
        error.store = error.store or folder
        raise
    if chosen.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _tell(_closing(found, chosen))
    is_whole = not (found["damage"] or found["gaps"] or found["lost_count"] or found["is_blind"])
    return Exit.DONE if is_whole else Exit.FOUND


def _write(folder: str, into: str, found: dict[str, Any]) -> None:
    with Bar("writing", sys.stderr) as bar:

        def tell(written: int, whole: int) -> None:
            bar.show(written, whole, message_words(written))

        try:
            again = _core.salvage(folder, into, tell)
        except StoreError as error:
            words = f"{error}; what was written into {into} is not complete: remove it and salvage again"
            error.args = (*error.args[:-1], words)
            raise
    found.update(again, written=True)


def _tell(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)
    sys.stdout.flush()


def _lines(found: dict[str, Any], folder: str, most: int) -> Iterator[str]:
    out = sys.stdout
    if not found["damage"] and not found["lost_count"] and not found["gaps"]:
        yield f"{folder}: nothing is damaged; `delaymq.open` should take it as it is"
    else:
        yield f"{alarming('DAMAGED', out)}: {folder}"
    yield from _some([f"  {one['words']}" for one in found["damage"]], most, found["damage_unlisted"])
    if found["is_blind"]:
        yield "Neither a checkpoint nor the beginning of the log is there: nobody can say what was finished."
    gone = sum(gap["count"] for gap in found["gaps"])
    if gone:
        facts = count_words(gone, "fact")
        yield f"{alarming('GONE', out)}: {facts}, which may have been messages that nothing else tells of:"
        yield from _some(
            [f"  sequences {gap['first']} to {gap['first'] + gap['count'] - 1}" for gap in found["gaps"]], most
        )
    if found["lost_count"]:
        yield f"{alarming('LOST', out)}: {message_words(found['lost_count'])} not finished:"
        unlisted = found["lost_count"] - len(found["lost"])
        yield from _some([_lost(one) for one in found["lost"]], most, unlisted)
    yield ""
    yield f"{message_words(found['saved'])} can be saved"
    if found["subjects"]:
        heads = ("subject", "pending", "ready", "doubtful", "lost")
        rows = [(one["name"] or "(unknown)", *(one[name] for name in heads[1:])) for one in found["subjects"]]
        yield table(heads, rows[:most], out)
        yield from _some([""] * len(rows), most)[most:]
    if found["groups"]:
        rows = [(one["name"], one["subject"], one["unfinished"]) for one in found["groups"]]
        yield ""
        yield table(("group", "subject", "not finished"), rows[:most], out)
        yield from _some([""] * len(rows), most)[most:]
    if found["series"]:
        rows = [(one["name"], one["subject"], one["rule"], one["zone"]) for one in found["series"]]
        yield ""
        yield table(("series", "subject", "rule", "zone"), rows[:most], out)
        yield from _some([""] * len(rows), most)[most:]


def _some(lines: list[str], most: int, unlisted: int = 0) -> list[str]:
    left = max(0, len(lines) - most) + unlisted
    return lines[:most] + ([f"  … and {left:,} more"] if left else [])


def _lost(one: dict[str, Any]) -> str:
    subject = one["subject"] or "a subject that is not known"
    sequence = f", sequence {one['sequence']}" if one["sequence"] else ""
    due = f", due {moment(one['due_ms']).isoformat()}" if one["due_ms"] else ""
    return f"  {subject}{sequence}{due}: {one['words']}"


def _closing(found: dict[str, Any], chosen: argparse.Namespace) -> Iterator[str]:
    yield ""
    if found["written"]:
        yield f"written into {chosen.into}: {message_words(found['saved'])}; the damaged store is as it was"
        return
    yield "Nothing was changed."
    if chosen.into is None:
        yield "To write what can be saved into a new store: --into NEWFOLDER --yes"
    else:
        yield f"To write what can be saved into {chosen.into}, say --yes as well"
