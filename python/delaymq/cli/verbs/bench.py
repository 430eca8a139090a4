"""`delaymq bench`: each figure next to its limit, measured in the same run."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from delaymq.bench import BENCHES, SCALED, planned
from delaymq.bench import run as run_benches
from delaymq.bench.cases import replay
from delaymq.bench.cases.changes import disk_bytes
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.output.figures import FigureTable

MESSAGES_MAX = 1_000_000_000


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "bench",
        run,
        summary="measure each figure next to its limit",
        details="The limit is what the machine itself can do, measured in the same run. The bar is the "
        "ratio of the two. If a figure must be reached on any machine, a line below its row says "
        "so.",
        examples=(
            "delaymq bench",
            "delaymq bench append commit --quick",
            "delaymq bench lateness --server --json",
            "delaymq bench room --scale 100000000 --must",
        ),
    )
    verb.add_argument("names", nargs="*", metavar="NAME", type=_known, help=f"out of {', '.join(BENCHES)}; all if none")
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    verb.add_argument("--quick", action="store_true", help="fewer messages, one run, no marks; under 5 s a bench")
    verb.add_argument("--must", action="store_true", help=f"end with {Exit.FOUND:d} if a mark was missed")
    verb.add_argument(
        "--server", action="store_true", help="only the benches that go through a server in its own process"
    )
    verb.add_argument(
        "--scale", type=_count, metavar="N", help=f"number of messages, with one run; only for {', '.join(SCALED)}"
    )
    verb.add_argument("--folder", type=Path, metavar="DIR", help="a folder on the disk to measure (default: temporary)")


def _known(name: str) -> str:
    known = name.replace("-", "_")
    if known not in BENCHES:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(BENCHES)}")
    return known


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MESSAGES_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MESSAGES_MAX}")
    return int(text)


def run(chosen: argparse.Namespace) -> int:
    """Measures, and prints each row as it is ready."""
    if chosen.scale is not None:
        if not chosen.names or not set(chosen.names) <= SCALED.keys():
            raise UsageError(f"--scale is for {', '.join(SCALED)} alone")
        needed = disk_bytes(chosen.scale) * (replay.STORES if "replay" in chosen.names else 1)
        if needed > (free := shutil.disk_usage(chosen.folder or tempfile.gettempdir()).free):
            raise UsageError(f"{chosen.scale} messages need {needed} bytes on the disk, of which {free} are free")
    cases = planned(chosen.names, quick=chosen.quick, served=chosen.server, scale=chosen.scale)
    if not cases:
        raise UsageError(f"none of {', '.join(chosen.names)} goes through a server")
    if chosen.must and not any(case.must for case in cases):
        raise UsageError(f"--must: nothing is asked of {'a quick run' if chosen.quick else ', '.join(chosen.names)}")
    shown = None if chosen.json else FigureTable(cases, sys.stdout)
    if shown:
        print(shown.head(), flush=True)
    missed = False
    for row in run_benches(cases, quick=chosen.quick, folder=chosen.folder):
        lines = [shown.line(row), *shown.marks(row)] if shown else [row.to_json()]
        print(*lines, sep="\n", flush=True)
        missed |= bool(row.missed)
    return Exit.FOUND if missed and chosen.must else Exit.DONE
