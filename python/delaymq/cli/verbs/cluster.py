"""`delaymq cluster`: begins a group of copies, shows it, and changes its primary and its nodes."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from typing import Any

from delaymq import _core
from delaymq._store.recovery import SEGMENT_BYTES, errors_named
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb
from delaymq.cli.input.settings import Settings
from delaymq.cli.input.stores import add_settings, folder_of, settings_of
from delaymq.cli.output.group_of_copies import register_lines, status_lines
from delaymq.cli.server.cluster_options import cluster_of, min_copies_of, register_of
from delaymq.cli.server.group_requests import EXAMPLES as REQUEST_EXAMPLES
from delaymq.cli.server.group_requests import add_http, add_requests, timeout_of
from delaymq.cli.server.pages import http_of, page
from delaymq.errors import StoreError, Unreachable

EXAMPLES = (
    "delaymq cluster create --config node1.toml",
    "delaymq cluster status --config node1.toml",
    "delaymq cluster status --http http://127.0.0.1:20880 --json | jq .status.role",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "cluster",
        None,
        summary="begin a group of copies, show it, and change its primary and its nodes",
        details="`delaymq serve` with the same settings runs a node of the group.",
        examples=(*EXAMPLES, *REQUEST_EXAMPLES),
    )
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    create = add_verb(
        parts,
        "create",
        run_create,
        summary="make the first copy of a new group, and its register",
        details="A closed store that is in the folder becomes the first copy, with all its messages.",
        examples=EXAMPLES[:1],
    )
    create.add_argument("--store", metavar="DIR", help="the store's folder, created if it is missing")
    create.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(create)
    create.set_defaults(server=None)
    status = add_verb(
        parts,
        "status",
        run_status,
        summary="show a node and the others, as the node sees them",
        details="If the node does not answer, the register of the group is shown instead, and the code is 8.",
        examples=EXAMPLES[1:3],
    )
    status.add_argument("--json", action="store_true", help="one JSON object")
    add_http(status)
    add_requests(parts)


def run_create(chosen: argparse.Namespace) -> int:
    """Makes the first copy of a group."""
    settings = settings_of(chosen)
    folder, cluster, min_copies = folder_of(chosen, settings), cluster_of(settings), min_copies_of(settings)
    segment_bytes = settings.get("store.segment_bytes", SEGMENT_BYTES)
    with errors_named(str(folder)):
        stream, node = _core.create_group(str(folder), segment_bytes, cluster["register"], min_copies)
    if chosen.json:
        print(json.dumps({"stream": stream, "node": node, "min_copies": min_copies}))
        return Exit.DONE
    print(f"stream {stream}: the group is made, and {folder} is its first copy")
    print(f"node   {node}: the first primary")
    print("next: run `delaymq serve` with these settings here, and on each other node with its own and an empty folder")
    if min_copies > 1:
        print(f"publishes are refused until {min_copies} copies follow")
    return Exit.DONE


def run_status(chosen: argparse.Namespace) -> int:
    """Prints the status of a node, or the register if the node does not answer."""
    settings = settings_of(chosen)
    url = http_of(settings, chosen.http)
    try:
        status = page(url, "/cluster", timeout_of(settings))
    except Unreachable as error:
        if "cluster.register" not in settings:
            raise
        return _show_register(chosen, settings, url, error)
    restored = None
    if status.get("awaits_confirmation") and "cluster.register" in settings:
        with suppress(StoreError):  # the rest of the status is of use without it
            restored = _register(settings)
    if chosen.json:
        register = restored or status.get("register")
        print(json.dumps({"http": url, "status": status, "register": register, "reason": None}))
    else:
        print("\n".join(status_lines(status, restored)))
    return Exit.DONE


def _register(settings: Settings) -> dict[str, Any] | None:
    text = _core.read_register(register_of(settings))
    return None if text is None else dict(json.loads(text))


def _show_register(chosen: argparse.Namespace, settings: Settings, url: str, error: Unreachable) -> int:
    register = _register(settings)
    if chosen.json:
        print(json.dumps({"http": url, "status": None, "register": register, "reason": str(error)}))
        return Exit.NO_SERVER
    print(f"{error}; the register of the group says:")
    print("\n".join(register_lines(register, settings["cluster.register"])))
    return Exit.NO_SERVER
