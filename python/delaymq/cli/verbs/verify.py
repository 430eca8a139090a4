"""`delaymq verify`: reads and checks every byte of a store."""

from __future__ import annotations

import argparse
import json
import os
import sys

from delaymq import _core
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.stores import add_files, folder_of, settings_of
from delaymq.cli.output.terminal import Bar, alarming, byte_words, count_words


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "verify",
        run,
        summary="read and check every byte of a store that no process has open",
        details="Changes nothing. Names damage by file and offset.",
        examples=("delaymq verify --store ./data", "delaymq verify --store ./data --json"),
    )
    verb.add_argument("--json", action="store_true", help="one JSON object")
    add_files(verb, "give --store DIR where they lie, when the server has ended")


def run(chosen: argparse.Namespace) -> int:
    """Verifies the store. Returns 1 if something is damaged."""
    folder = os.fspath(folder_of(chosen, settings_of(chosen)))
    with Bar("verifying", sys.stderr) as bar:
        found = _core.verify(folder, lambda done, whole: bar.show(done, whole, f"of {byte_words(whole)}"))
    if chosen.json:
        print(json.dumps(found))
    else:
        print(
            f"{count_words(found['records'], 'record')} in {count_words(found['batches'], 'batch', 'batches')}, "
            f"{count_words(found['runs'], 'run')} and {count_words(found['checkpoints'], 'checkpoint')} read"
        )
        for path in found["aside"]:
            print(f"set aside by an earlier repair: {path}")
        for voided in found["voided"]:
            print(f"given up earlier: {voided}")
        for problem in found["problems"]:
            print(f"{alarming('DAMAGED', sys.stdout)}: {problem}")
        print("damaged" if found["problems"] else "sound")
    return Exit.FOUND if found["problems"] else Exit.DONE
