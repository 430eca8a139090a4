"""`delaymq verify`: read every byte of a store and check it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from delaymq import _core

if TYPE_CHECKING:
    from delaymq.cli.arguments import Verbs

__all__ = ["add_to", "run"]


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = verbs.add_parser("verify", help="read every byte of a store that nobody has open, and check it")
    verb.add_argument("--store", required=True, metavar="DIR", help="the store's folder")
    verb.add_argument("--json", action="store_true", help="one JSON object")
    verb.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Verifies; 1 where something is damaged."""
    found = _core.verify(chosen.store)
    if chosen.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['records']:,} records in {found['batches']:,} batches, {found['runs']:,} runs "
            f"and {found['checkpoints']:,} checkpoints read"
        )
        for path in found["aside"]:
            print(f"set aside by an earlier repair: {path}")
        for voided in found["voided"]:
            print(f"given up earlier: {voided}")
        for problem in found["problems"]:
            print(f"DAMAGED: {problem}")
        print("damaged" if found["problems"] else "sound")
    return 1 if found["problems"] else 0
