"""`delaymq config check`: the configuration, the source of each value, and errors in it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb
from delaymq.cli.input.settings import KEYS, environment, load
from delaymq.cli.input.stores import add_settings
from delaymq.cli.output.terminal import print_list, table

EXAMPLES = (
    "delaymq config check delaymq.toml",
    "DELAYMQ_STORE__PATH=./data delaymq config check --set store.durability=os",
    "delaymq config keys",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    details = (
        "Settings come from a TOML file (--config FILE or the variable DELAYMQ_CONFIG), then from "
        "the environment (DELAYMQ_STORE__PATH for store.path), then from --set store.path=…. A "
        "later source wins."
    )
    verb = add_verb(verbs, "config", None, summary="check the configuration", details=details, examples=EXAMPLES)
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    check = add_verb(
        parts,
        "check",
        run,
        summary="print each value of the configuration with its source",
        examples=EXAMPLES[:2],
    )
    check.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the file, as --config FILE")
    check.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(check)
    keys = add_verb(parts, "keys", run_keys, summary="list all keys", examples=EXAMPLES[2:])
    keys.add_argument("--json", action="store_true", help="one JSON object a line")


def run(chosen: argparse.Namespace) -> int:
    """Reads the configuration. Any mistake in it is an error."""
    if chosen.file is not None and chosen.config is not None:
        raise UsageError("FILE and --config name two files; give one")
    settings = load(chosen.file or chosen.config, environment(), chosen.pairs)
    if chosen.json:
        said = {name: {"value": settings[name], "origin": settings.origin(name)} for name in settings}
        print(json.dumps(said))
    elif settings:
        rows = [(name, str(settings[name]), settings.origin(name)) for name in settings]
        print(table(("key", "value", "from"), rows, sys.stdout))
    else:
        print("nothing is configured")
    return Exit.DONE


def run_keys(chosen: argparse.Namespace) -> int:
    """Lists all keys of the configuration."""
    heads = ("key", "variable", "expected", "meaning", "default")
    rows = [(key.name, key.variable, key.expected, key.meaning, key.default) for key in KEYS]
    print_list(rows, lambda row: dict(zip(heads[:-1], row, strict=False)), heads, tuple, as_json=chosen.json)
    return Exit.DONE
