"""`python -m checker LEDGER…`: one JSON object a ledger on standard output, a table on standard error.

Exits with 0 where all are clean, 1 where a promise was broken, 2 where a ledger cannot be judged and none is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from checker.findings import NAMES
from checker.verdict import BROKEN, CLEAN, UNFIT, Verdict, judge

EXIT_CODES = {CLEAN: 0, UNFIT: 2, BROKEN: 1}


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="checker", description="Judges ledgers of runs that killed or cut a server.")
    options.add_argument("ledgers", nargs="+", type=Path, metavar="LEDGER")
    options.add_argument("--clocks-ms", type=int, default=0, help="by how much the clocks of both sides may differ")
    options.add_argument("--quiet", action="store_true", help="no table where a ledger is clean")
    chosen = options.parse_args(arguments)
    kinds = set()
    for path in chosen.ledgers:
        try:
            verdict = judge(path, chosen.clocks_ms)
        except OSError as error:
            verdict = Verdict(str(path), UNFIT, f"cannot be read: {error}")
        kinds.add(verdict.kind)
        sys.stdout.write(json.dumps(verdict.as_json()) + "\n")
        sys.stdout.flush()
        if verdict.kind != CLEAN or not chosen.quiet:
            sys.stderr.write(table(verdict))
    return next(EXIT_CODES[kind] for kind in (BROKEN, UNFIT, CLEAN) if kind in kinds)


def table(verdict: Verdict) -> str:
    """The same for people."""
    rows = [f"{verdict.ledger}: {verdict.kind}{', ' if verdict.why else ''}{verdict.why}"]
    for name, value in verdict.figures.items():
        told = ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)
        rows.append(f"  {name:<14} {told}")
    for name, count in verdict.findings.counts.items():
        if count or verdict.kind == CLEAN:
            rows.append(f"  {name:<14} {count:>8}  {NAMES[name]}")
        rows += [f"    {example}" for example in verdict.findings.examples.get(name, [])]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
