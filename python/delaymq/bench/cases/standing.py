"""The standing cost of a server: parked pulls, idle connections, its start, and hostile neighbours."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import in_process, own_process, together
from delaymq.bench.served import Served, on_server, served

PULLS = 10_000
WAKES = 500
WAKE_LEAD_MS = 200
IDLE = 2000
STARTS = 3  # starts of one run, whose median is reported
QUICK_SHARE = 10
GOOD = {"connections": 1, "in_flight": 1, "batch": 1, "body_bytes": 256, "delay_ms": 600_000, "receipts": 1}
GOOD_EVERY_US = 1000
GOOD_SECONDS = 6
ARRAY_WORDS = "80 bytes each in one array"


def cases_held(quick: bool) -> Sequence[Case]:
    """Memory of parked pulls, and how soon after the due time one is woken."""
    pulls, wakes = (PULLS // QUICK_SHARE, WAKES // QUICK_SHARE) if quick else (PULLS, WAKES)
    detail = {"pulls": pulls, "subjects": 100, "wakes": wakes, "from": "rust"}
    numbers = {"pulls": pulls, "wakes": wakes, "lead_ms": WAKE_LEAD_MS}
    return [_in_memory("held_pulls", "held", numbers, pulls, quick=quick, detail=detail)]


def cases_idle(quick: bool) -> Sequence[Case]:
    """Memory of idle connections."""
    connections = IDLE // (QUICK_SHARE if quick else 1)
    detail = {"connections": connections, "from": "rust"}
    return [_in_memory("idle", "idle", {"connections": connections}, connections, quick=quick, detail=detail)]


def _in_memory(
    bench: str, name: str, numbers: Mapping[str, float], standing: int, *, quick: bool, detail: dict[str, object]
) -> Case:
    def ours(server: Served, folder: Path) -> Figures:
        return own_process(name, folder, port=server.port, pid=server.pid, **numbers)

    return Case(
        bench=bench,
        unit="MiB",
        durability="disk",
        n=standing,
        pairs=interleaved(on_server(ours), in_process("standing_limit", standing=standing), quick=quick),
        limit_words=ARRAY_WORDS,
        higher_is_better=False,
        detail=detail,
        is_served=True,
    )


def cases_ready(quick: bool) -> Sequence[Case]:
    """From the start of `delaymq serve` over an empty store until it reports its address."""
    starts = 1 if quick else STARTS

    def ours(folder: Path) -> Figures:
        found = []
        for number in range(starts):
            with served(folder / str(number), "disk") as server:
                found.append(server.ready_s * 1e3)
        return {"value": sorted(found)[starts // 2], "slowest_ms": max(found)}

    def limit(_: Path) -> Figures:
        found = []
        for _number in range(starts):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", "print()"], stdout=subprocess.PIPE, check=True)
            found.append((time.perf_counter() - started) * 1e3)
        return {"value": sorted(found)[starts // 2]}

    return [
        Case(
            bench="ready",
            unit="ms",
            durability="disk",
            n=starts,
            pairs=interleaved(ours, limit, quick=quick),
            limit_words="a Python that is started, imports nothing and prints one line",
            higher_is_better=False,
            detail={"where": "empty store", "from": "python"},
            is_served=True,
        )
    ]


def cases_neighbour(quick: bool) -> Sequence[Case]:
    """The p99 of a client's durable answers next to a hostile process; the limit is the same client alone."""
    messages = GOOD_SECONDS * 1_000_000 // GOOD_EVERY_US // (QUICK_SHARE if quick else 1)
    numbers = {**GOOD, "messages": messages, "every_us": GOOD_EVERY_US}

    def alone(server: Served, folder: Path) -> Figures:
        return _answers(together(folder, {"producing": {**numbers, "port": server.port}}))

    def beside(server: Served, folder: Path) -> Figures:
        orders = {"hostile": {"port": server.port}, "producing": {**numbers, "port": server.port, "beside": 1}}
        return _answers(together(folder, orders))

    ours, limit = (on_server(measure, settled=not quick) for measure in (beside, alone))

    return [
        Case(
            bench="neighbour",
            unit="ms",
            durability="disk",
            n=messages,
            pairs=interleaved(ours, limit, quick=quick),
            limit_words="the same client alone",
            higher_is_better=False,
            detail={"rate_per_s": 1_000_000 // GOOD_EVERY_US, "beside": "hostile", "figure": "p99_ms", "from": "rust"},
            is_served=True,
        )
    ]


def _answers(found: dict[str, Figures]) -> Figures:
    produced = found["producing"]
    return {"value": produced["p99_ms"], **{name: produced[name] for name in ("p50_ms", "p999_ms", "max_ms")}}
