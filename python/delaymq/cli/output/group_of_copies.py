"""A group of copies, as one of its nodes or its register shows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from delaymq.cli.output.terminal import alarming, table

Shown = Mapping[str, Any]
HEADS = ("node", "role", "in set", "position", "lag", "clock", "connected", "clients connect to")
UNFIT = {"disk": "its disk hangs", "clock": "its clock is {} that of the group"}


def status_lines(status: Shown, restored: Shown | None = None) -> Iterator[str]:
    """Yields what a node says of itself and the others.

    Args:
        status: The status of the node.
        restored: The register, if the node waits until an operator has confirmed it, and if it could be read.
    """
    register = status.get("register") or {}
    primary = status.get("primary")
    where = "unknown" if primary is None else f"{primary['node']} at {primary.get('address') or 'an unknown address'}"
    yield f"node {status['node']} is {status['role']}, epoch {status['epoch']}; the primary is {where}"
    yield from _troubles(status, "COORDINATOR" if restored is None else str(restored["coordinator"]))
    sync = register.get("sync", ())
    yield (
        f"stream {status['stream']}, log of epoch {status.get('log_epoch', 'unknown')}, "
        f"committed up to {status['committed']:,}; {len(sync)} nodes have every fact, "
        f"at least {register.get('min_copies', 'an unknown number')} must"
    )
    yield table(HEADS, list(_rows(status, register)), sys.stdout)
    if restored is not None:
        yield "the register that the node does not believe yet:"
        yield from register_lines(restored, "")


def register_lines(register: Shown | None, place: str) -> Iterator[str]:
    """Yields what the register says."""
    if register is None:
        yield f"nothing: {place} holds no group; make one with `delaymq cluster create`"
        return
    yield f"stream {register['stream']}, epoch {register['epoch']}, {register['state']}"
    yield f"coordinator {register['coordinator']}, version {register['version']}"
    rows = [
        (node, "primary" if node == register["primary"] else "replica", _yes(node in register["sync"]))
        for node in sorted({*register["sync"], *register["complete"]})
    ]
    yield table(HEADS[:3], rows, sys.stdout)


def _troubles(status: Shown, coordinator: str) -> Iterator[str]:
    restored = (
        "the register was restored from a backup, so no node takes over: compare all nodes, then ask the primary, or "
        f"the node with the latest log, to go on: `delaymq cluster confirm {coordinator}`"
    )
    is_primary = status["role"] == "primary"
    troubles = (
        (not status.get("register"), "the register was not read yet"),
        (status.get("awaits_confirmation"), restored),
        (not status.get("is_fit", True), f"the node takes over only if no other one can: {_reasons(status)}"),
        (is_primary and not status.get("accepts_publishes"), "publishes are refused: too few copies follow"),
        *((copy.get("has_diverged"), f"the copy of {copy['node']} has diverged") for copy in _copies(status)),
        *((copy.get("is_clock_apart"), f"the clock of {copy['node']} is {_ahead(copy)}") for copy in _copies(status)),
    )
    for is_so, words in troubles:
        if is_so:
            yield f"{alarming('TROUBLE', sys.stdout)}: {words}"


def _reasons(status: Shown) -> str:
    ahead = _distance(status.get("clock_ahead_ms"))
    return ", ".join(UNFIT[reason].format(ahead) for reason in status.get("unfit_reasons") or ())


def _ahead(copy: Shown) -> str:
    return f"{_distance(copy.get('clock_offset_ms'))} that of the primary"


def _distance(ahead_ms: int | None) -> str:
    ms = ahead_ms or 0
    return f"{abs(ms):,} ms {'behind' if ms < 0 else 'ahead of'}"


def _copies(status: Shown) -> list[Shown]:
    return list(status.get("copies") or ())


def _rows(status: Shown, register: Shown) -> Iterator[tuple[str, ...]]:
    own, sync = status["node"], register.get("sync", ())
    primary = status.get("primary") or {}
    positions = {copy["node"]: copy.get("durable") for copy in _copies(status)}
    clocks = {copy["node"]: copy.get("clock_offset_ms") for copy in _copies(status)}
    lag = "0" if status["role"] == "primary" else ""
    address = primary.get("address") if primary.get("node") == own else None
    yield own, status["role"], _yes(own in sync), f"{status['durable']:,}", lag, "", "this node", address or ""
    seen = {own}
    links = list(status.get("nodes") or ())
    for link in links:
        seen.add(link.get("node"))
    others = sorted({*sync, *register.get("complete", ()), *positions} - seen)
    for link in [*links, *({"node": node} for node in others)]:
        node = link.get("node")
        connected, address = _yes(link.get("is_connected")), link.get("client_address") or ""
        if node is None:
            yield link["address"], "", "", "", "", "", connected, address
            continue
        role, position = "primary" if node == primary.get("node") else "replica", positions.get(node)
        numbers = ("", "") if position is None else (f"{position:,}", f"{max(0, status['end'] - position):,}")
        offset = clocks.get(node)
        clock = "" if offset is None else f"{offset:+,} ms"
        yield node, role, _yes(node in sync), *numbers, clock, connected, address


def _yes(is_so: object) -> str:
    return "yes" if is_so else "no"
