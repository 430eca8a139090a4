"""One measurement in a process of its own; see `rust`."""

from __future__ import annotations

import json
import os
import signal
import sys

from delaymq import _core


def main() -> None:
    """Makes one measurement, prints its figures, and exits or kills itself as requested."""
    orders = json.loads(sys.argv[1])
    figures = _core.measure(orders["name"], orders["folder"], orders["numbers"])
    print(json.dumps(figures), flush=True)
    if orders["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
