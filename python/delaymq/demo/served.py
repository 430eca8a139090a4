"""`delaymq serve` for the demo: a process that also ends when its parent does."""

from __future__ import annotations

import os
import sys
import threading

from delaymq.cli import main as delaymq

ORPHANED = 70


def main() -> None:
    """Serves with the given arguments until a signal comes or standard input ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(delaymq(["serve", "--json", *sys.argv[1:]]))


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
