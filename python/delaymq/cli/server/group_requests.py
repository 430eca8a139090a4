"""The requests of an administrator to a node of a group of copies: parts of `delaymq cluster`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from delaymq import _core
from delaymq._store.recovery import errors_named
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb, duration
from delaymq.cli.input.settings import Settings
from delaymq.cli.input.stores import PROOF_HELP, add_settings, folder_of, settings_of, token_in
from delaymq.cli.server.cluster_options import register_of
from delaymq.cli.server.pages import await_page, http_of, post
from delaymq.errors import StoreError, TimedOut

TIMEOUT_SECONDS = 10.0
CHANGED_WITHIN = timedelta(seconds=30)  # longer than any node waits before it changes the set
NODE_HELP = "the id of a node, as `cluster status` shows it"
EXAMPLES = (
    "delaymq cluster switchover 0123456789abcdef0123456789abcdef --config node1.toml --token-file admin.token",
    "delaymq cluster remove 0123456789abcdef0123456789abcdef --config node1.toml --token-file admin.token",
    "delaymq cluster promote 0123456789abcdef0123456789abcdef --config node2.toml --token-file admin.token",
    "delaymq cluster add d.example:20811 --config node1.toml --token-file admin.token",
    "delaymq cluster confirm 14841639068965178418 --config node1.toml --token-file admin.token",
    "delaymq cluster min-copies 2 --config node1.toml --token-file admin.token",
)


def add_requests(parts: Verbs) -> None:
    """Adds the parts to the verb `cluster`."""
    hand_over = add_verb(
        parts,
        "switchover",
        run_switchover,
        summary="let the primary hand over to another node",
        details="Ask the primary. It finishes what it has accepted before the other node goes on.",
        examples=EXAMPLES[:1],
    )
    hand_over.add_argument("node", metavar="NODE", help=NODE_HELP)
    confirm = add_verb(
        parts,
        "confirm",
        run_confirm,
        summary="let the group go on from a node after its register was restored from a backup",
        details="Compare the status of all nodes first. Ask the primary, or else the node with the latest log.",
        examples=EXAMPLES[4:5],
    )
    confirm.add_argument("coordinator", type=_number, metavar="COORDINATOR", help="as `cluster status` shows it")
    changes = (confirm, _add_part(parts), _remove_part(parts), _promote_part(parts), _min_copies_part(parts))
    for part in changes:
        part.add_argument(
            "--timeout", type=duration, default=CHANGED_WITHIN, metavar="TIME", help="how long to wait (default 30s)"
        )
    for part in (hand_over, *changes):
        part.add_argument("--token-file", type=Path, metavar="FILE", help=f"the administrator's: {PROOF_HELP}")
        add_http(part)


def _add_part(parts: Verbs) -> CommandParser:
    add = add_verb(
        parts,
        "add",
        run_add,
        summary="let a node connect to another one, at an address that is in no settings",
        details="Ask any node. A node whose settings name one of the others is found without this.",
        examples=EXAMPLES[3:4],
    )
    add.add_argument("address", metavar="ADDRESS", help="where the other node listens for nodes, as host:port")
    return add


def _remove_part(parts: Verbs) -> CommandParser:
    remove = add_verb(
        parts,
        "remove",
        run_remove,
        summary="let the primary forget a node that is gone for good",
        details="Ask the primary. If the node comes back with its folder, it joins again.",
        examples=EXAMPLES[1:2],
    )
    remove.add_argument("node", metavar="NODE", help=NODE_HELP)
    help_ = "also if no other node but the primary has every answered message"
    remove.add_argument("--accept-loss", action="store_true", help=help_)
    return remove


def _promote_part(parts: Verbs) -> CommandParser:
    promote = add_verb(
        parts,
        "promote",
        run_promote,
        summary="let a node lead after all nodes of the set are gone for good",
        details="Ask the node itself, which must be complete. If none is left, stop it, and accept the loss.",
        examples=EXAMPLES[2:3],
    )
    promote.add_argument("node", metavar="NODE", help="the id of the node that is asked")
    help_ = "stop the node, and let the group go on from its copy, although messages are missing there"
    promote.add_argument("--accept-loss", action="store_true", help=help_)
    promote.add_argument("--store", metavar="DIR", help="with --accept-loss: the folder of the node")
    promote.set_defaults(server=None)
    return promote


def _min_copies_part(parts: Verbs) -> CommandParser:
    demand = add_verb(
        parts,
        "min-copies",
        run_min_copies,
        summary="change on how many nodes a new message must be",
        details="Ask the primary. It refuses more copies than the set has nodes.",
        examples=EXAMPLES[5:],
    )
    demand.add_argument("copies", type=_number, metavar="COPIES", help="the number of nodes, 1 or more")
    return demand


def add_http(part: CommandParser) -> None:
    """Adds the options that say which node is asked."""
    part.add_argument("--http", metavar="URL", help="plain HTTP of the node (default: by http.host and http.port)")
    add_settings(part)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}")
    return int(text)


def run_switchover(chosen: argparse.Namespace) -> int:
    """Asks the primary to hand over."""
    _post(chosen, f"/cluster/switchover?node={quote(chosen.node, safe='')}")
    print(f"the primary hands over to {chosen.node}; `delaymq cluster status` shows when it has")
    return Exit.DONE


def run_confirm(chosen: argparse.Namespace) -> int:
    """Asks a node to go on with a restored register, and waits until it has."""
    coordinator = chosen.coordinator
    _post(chosen, f"/cluster/confirm?coordinator={coordinator}")
    _await(chosen, lambda status: not status["awaits_confirmation"], f"the coordinator {coordinator} is not believed")
    print(f"the register of coordinator {coordinator} is the group's from now on")
    return Exit.DONE


def run_add(chosen: argparse.Namespace) -> int:
    """Asks a node to connect to another one, and waits until that is in the set."""
    address, seen = str(chosen.address), {"fault": "it has not connected"}

    def is_in_set(status: dict[str, Any]) -> bool:
        link = next((link for link in status["nodes"] if link["address"] == address), None)
        if link is None:
            return False
        seen.update(link)
        if link["is_refused"]:
            raise StoreError(f"{address}: {link['fault']}")
        return link["node"] in (status.get("register") or {}).get("sync", ())

    _post(chosen, f"/cluster/add?address={quote(address, safe='')}")
    try:
        _await(chosen, is_in_set, f"no node at {address} is in the set")
    except TimedOut as late:
        raise TimedOut(f"{late}: {seen['fault'] or 'it is connected, and not in the set yet'}") from None
    print(f"the node {seen['node']} at {address} is in the set")
    return Exit.DONE


def run_remove(chosen: argparse.Namespace) -> int:
    """Asks the primary to forget a node, and waits until it has."""
    node = str(chosen.node).lower()
    loss = "&accept_loss=true" if chosen.accept_loss else ""
    _post(chosen, f"/cluster/remove?node={quote(chosen.node, safe='')}{loss}")
    _await(chosen, lambda status: node not in _nodes_of(status), f"the node {node} is not removed")
    print(f"the node {node} is no longer a node of the group")
    return Exit.DONE


def run_min_copies(chosen: argparse.Namespace) -> int:
    """Asks the primary to demand so many copies, and waits until the register says so."""
    copies = chosen.copies
    _post(chosen, f"/cluster/min_copies?copies={copies}")
    _await(
        chosen,
        lambda status: (status.get("register") or {}).get("min_copies") == copies,
        f"the register does not demand {copies} copies",
    )
    print(f"min_copies is {copies} from now on")
    return Exit.DONE


def run_promote(chosen: argparse.Namespace) -> int:
    """Asks a node to lead, and waits until it does; or lets the group go on from its copy, with a loss."""
    node = str(chosen.node).lower()
    if chosen.accept_loss:
        return _continue_group(chosen, node)
    _post(chosen, f"/cluster/promote?node={quote(chosen.node, safe='')}")
    status = _await(chosen, lambda status: status["role"] == "primary", f"the node {node} is not the primary")
    print(f"the node {node} is the primary, epoch {status['epoch']}")
    return Exit.DONE


def _continue_group(chosen: argparse.Namespace, node: str) -> int:
    if re.fullmatch("[0-9a-f]{32}", node) is None:
        raise UsageError(f"NODE: expected the 32 hexadecimal digits of a node's id, found {chosen.node!r}")
    settings = settings_of(chosen)
    folder = folder_of(chosen, settings)
    with errors_named(str(folder)):
        timeline, sequence = _core.continue_group(str(folder), register_of(settings), bytes.fromhex(node))
    print(f"the group goes on from {folder}, as timeline {timeline}")
    print(f"messages from sequence {sequence:,} on that were answered as stored may be missing")
    print("next: run `delaymq serve` with these settings, and each other node with an empty folder")
    return Exit.DONE


def _nodes_of(status: Mapping[str, Any]) -> set[str]:
    register = status.get("register") or {}
    copies = (copy["node"] for copy in status.get("copies") or ())
    return {*register.get("sync", ()), *register.get("complete", ()), *copies}


def _await(chosen: argparse.Namespace, is_so: Callable[[dict[str, Any]], bool], otherwise: str) -> dict[str, Any]:
    settings, seconds = settings_of(chosen), chosen.timeout.total_seconds()
    return await_page(http_of(settings, chosen.http), "/cluster", is_so, seconds, otherwise)


def _post(chosen: argparse.Namespace, path: str) -> None:
    settings = settings_of(chosen)
    if chosen.token_file is None:
        raise UsageError("--token-file: missing: this needs the administrator's token; see `delaymq token --admin`")
    post(http_of(settings, chosen.http), path, token_in(chosen.token_file), timeout_of(settings))


def timeout_of(settings: Settings) -> float:
    """Returns how many seconds a page may take."""
    return float(settings.get("client.timeout_seconds", TIMEOUT_SECONDS)) or TIMEOUT_SECONDS
