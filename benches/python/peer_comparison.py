"""delaymq beside Redis and PostgreSQL, the same work in turns: `make bench-peers`.

The driver and the adapters of the peers lie in a folder beside the checkout, which this project does not need. It runs
each work on each peer, on a server of its own, round by round. The adapters of delaymq are in `peers` here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
OURS, COLUMNS, REDIS, POSTGRES = "delaymq", "delaymq-columns", "redis-zset", "postgres-skip-locked"
PEERS = ("redis_zset:durable", "postgres:default", "delaymq_rows:disk")
WORKS = {
    "schedule-1": PEERS,
    "schedule-64": PEERS,
    "schedule-batch": (*PEERS, "delaymq_columns:disk"),
}
"""The peers of each work, with their modes, in the order of a round."""


@dataclass(frozen=True)
class Line:
    """A line of the table: whose figure of which work it compares, and how many times Redis it must be."""

    words: str
    work: str
    ours: str
    must: float


LINES = (
    Line("one client, one message a call", "schedule-1", OURS, 1.3),
    Line("64 threads in two processes, a client each", "schedule-64", OURS, 3.5),
    Line("batches of 1,000 rows", "schedule-batch", OURS, 4),
    Line("batches of 1,000 as columns, next to their batches", "schedule-batch", COLUMNS, 10),
)


def main() -> int:
    """Measures and prints the table; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, default=ROOT.parent / "shared" / "peers", help="the folder of peers")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "peers", help="where the results are kept")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quiet", type=int, default=5, help="seconds to wait for a quiet machine before each run")
    chosen = parser.parse_args()
    if not (chosen.peers / "run.py").is_file():
        print(f"bench-peers: {os.path.relpath(chosen.peers)} is not there, so that there is nothing to compare with")
        return 0
    results = [one for number in range(chosen.rounds) for one in measured(chosen, number)]
    failed = dict.fromkeys(f"{one['peer']}, {one['work']}: {one['error']}" for one in results if "error" in one)
    print(*table(results), *failed, sep="\n")
    return 1 if failed else 0


def measured(chosen: argparse.Namespace, number: int) -> Iterator[dict[str, Any]]:
    """The results of one round: one for each peer and work."""
    print(f"round {number + 1} of {chosen.rounds}", file=sys.stderr, flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    places = [str(ROOT / "benches" / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    for work, peers in WORKS.items():
        out = chosen.out.resolve() / f"round-{number}-{work}.json"
        out.unlink(missing_ok=True)
        command = [sys.executable, "run.py", *peers, "--work", work, "--out", str(out)]
        once = ["--attempts", "1", "--quiet", str(chosen.quiet)]
        subprocess.run([*command, *once], cwd=chosen.peers, env=environment, stdout=subprocess.DEVNULL, check=True)
        yield from json.loads(out.read_text("utf-8"))


def table(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Medians of messages a second with their spread, and how many times the peers' the figures of delaymq are."""
    yield "| work | delaymq | Redis, fsync always | PostgreSQL | times Redis | must | times PostgreSQL |"
    yield "|---|---|---|---|---|---|---|"
    for line in LINES:
        ours, redis, postgres = (_rates(results, peer, line.work) for peer in (line.ours, REDIS, POSTGRES))
        times, times_postgres = (_times(ours, theirs) for theirs in (redis, postgres))
        judged = "" if times is None else ": met" if times >= line.must else ": missed"
        cells = [line.words, *map(_figure, (ours, redis, postgres)), _words(times), f"{line.must:g}{judged}"]
        yield f"| {' | '.join([*cells, _words(times_postgres)])} |"
    shares = [one["cpu"]["foreign_cpu_pct"] / 100 for one in results if "cpu" in one]
    if shares:
        yield f"\nOther processes used {statistics.median(shares):.0%} of the processors, at most {max(shares):.0%}."


def _rates(results: Sequence[dict[str, Any]], peer: str, work: str) -> list[float]:
    wanted = (one["figures"] for one in results if (one["peer"], one["work"]) == (peer, work) and "figures" in one)
    return [figures["msg_s"] for figures in wanted]


def _times(ours: list[float], theirs: list[float]) -> float | None:
    return statistics.median(ours) / statistics.median(theirs) if ours and theirs else None


def _words(times: float | None) -> str:
    return "-" if times is None else f"{times:.2f}"


def _figure(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f}/s ({min(rates):,.0f} to {max(rates):,.0f})" if rates else "not measured"


if __name__ == "__main__":
    sys.exit(main())
