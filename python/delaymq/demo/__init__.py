"""The demo: publish, kill the process with SIGKILL, start it again, and count.

Enter: settings. Leave: the result line by line, and an exit code. `conductor` is the parent of the demo in one process:
it kills the process that has the store, publishes and consumes (`child`). `served_conductor` kills a server
(`served`), while other processes publish and consume (`remote`). `publishers` and `consumers` are their work, `plan`
has the messages, `settings` the orders of a process, `frames` its reports, `ledger` the account and the verdict,
`account` adds reports to the ledger, and `summary` prints the `result`.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from delaymq.demo.conductor import Conductor
from delaymq.demo.served_conductor import ServedConductor
from delaymq.demo.settings import Settings
from delaymq.demo.summary import lines

__all__ = ["Settings", "run"]


def run(settings: Settings, tell: Callable[[str], object]) -> int:
    """Runs the demo, prints its result line by line, and returns the exit code.

    Args:
        settings: The settings.
        tell: Called with each line.

    Returns:
        0 if every promise was kept, 1 if one was broken.
    """
    victim = "over TCP to a server that is" if settings.served else "by a process that is"
    conductor = ServedConductor if settings.served else Conductor
    with tempfile.TemporaryDirectory(prefix="delaymq-demo-") as temporary:
        folder = settings.store or str(Path(temporary) / "store")
        tell(
            f"{settings.messages:,} messages of 20 B to 4 KiB over {settings.subjects} subjects, due within "
            f"{settings.seconds:g} s, published durably {victim} killed {settings.kills} times"
        )
        result = conductor(settings, folder).run()
    for line in lines(result):
        tell(line)
    return 0 if result.kept else 1
