"""`delaymq cluster`: begins a group of copies, shows it, and hands its primary over."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from delaymq import _core
from delaymq._store.recovery import SEGMENT_BYTES, errors_named
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb
from delaymq.cli.input.settings import Settings
from delaymq.cli.input.stores import PROOF_HELP, add_settings, folder_of, settings_of, token_in
from delaymq.cli.output.group_of_copies import register_lines, status_lines
from delaymq.cli.server.cluster_options import cluster_of, min_copies_of, register_of
from delaymq.cli.server.pages import http_of, page, post
from delaymq.errors import StoreError, Unreachable

TIMEOUT_SECONDS = 10.0
EXAMPLES = (
    "delaymq cluster create --config node1.toml",
    "delaymq cluster status --config node1.toml",
    "delaymq cluster status --http http://127.0.0.1:20880 --json | jq .status.role",
    "delaymq cluster switchover 0123456789abcdef0123456789abcdef --config node1.toml --token-file admin.token",
    "delaymq cluster confirm 14841639068965178418 --config node1.toml --token-file admin.token",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "cluster",
        None,
        summary="begin a group of copies, show it, and hand its primary over",
        details="`delaymq serve` with the same settings runs a node of the group.",
        examples=EXAMPLES,
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
    _add_http(status)
    hand_over = add_verb(
        parts,
        "switchover",
        run_switchover,
        summary="let the primary hand over to another node",
        details="Ask the primary. It finishes what it has accepted before the other node goes on.",
        examples=EXAMPLES[3:4],
    )
    hand_over.add_argument("node", metavar="NODE", help="the id of a node, as `cluster status` shows it")
    confirm = add_verb(
        parts,
        "confirm",
        run_confirm,
        summary="let a node believe a register that was restored, or made anew",
        details="Ask each node that `cluster status` says waits for it, after you have compared the register.",
        examples=EXAMPLES[4:],
    )
    confirm.add_argument("coordinator", type=_number, metavar="COORDINATOR", help="as `cluster status` shows it")
    for part in (hand_over, confirm):
        part.add_argument("--token-file", type=Path, metavar="FILE", help=f"the administrator's: {PROOF_HELP}")
        _add_http(part)


def _add_http(part: CommandParser) -> None:
    part.add_argument("--http", metavar="URL", help="plain HTTP of the node (default: by http.host and http.port)")
    add_settings(part)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of a coordinator, found {text!r}")
    return int(text)


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
        status = page(url, "/cluster", _timeout(settings))
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


def run_switchover(chosen: argparse.Namespace) -> int:
    """Asks the primary to hand over."""
    _post(chosen, f"/cluster/switchover?node={quote(chosen.node, safe='')}")
    print(f"the primary hands over to {chosen.node}; `delaymq cluster status` shows when it has")
    return Exit.DONE


def run_confirm(chosen: argparse.Namespace) -> int:
    """Asks a node to believe a coordinator."""
    _post(chosen, f"/cluster/confirm?coordinator={chosen.coordinator}")
    print(f"the node believes the register of the coordinator {chosen.coordinator}")
    return Exit.DONE


def _post(chosen: argparse.Namespace, path: str) -> None:
    settings = settings_of(chosen)
    if chosen.token_file is None:
        raise UsageError("--token-file: missing: this needs the administrator's token; see `delaymq token --admin`")
    post(http_of(settings, chosen.http), path, token_in(chosen.token_file), _timeout(settings))


def _timeout(settings: Settings) -> float:
    return float(settings.get("client.timeout_seconds", TIMEOUT_SECONDS)) or TIMEOUT_SECONDS
