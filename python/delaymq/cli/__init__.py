"""The `delaymq` command: one verb a file.

Exit codes: 0 done, 1 a promise is broken or damage was found, 2 the command line is wrong,
3 the store cannot be used as asked, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from delaymq import __version__
from delaymq.cli import bench, demo, verify
from delaymq.errors import DelaymqError

__all__ = ["main"]

EXIT_STORE = 3
EXIT_INTERRUPTED = 130
VERBS = (demo, bench, verify)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = argparse.ArgumentParser(prog="delaymq", description="A durable delay queue.")
    whole.add_argument("--version", action="version", version=f"delaymq {__version__}")
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_to(verbs)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code; what is meant for people goes to standard error."""
    chosen = parser().parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except DelaymqError as error:
        place = f"{error.store}: " if error.store else ""
        print(f"delaymq: {place}{error}", file=sys.stderr)
        return EXIT_STORE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
