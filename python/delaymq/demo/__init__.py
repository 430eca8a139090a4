"""The demo: publish, kill the process with -9, start it again, and count.

Two parents run it. `conductor` kills the process that has the store, publishes and consumes: `child`.
`served_conductor` kills the server (`served`); those who publish and consume are other processes
(`remote`), which live on. `publishers` and `consumers` are their work, `plan` says what is published,
`orders` what each is told, `frames` what they tell the parent, `ledger` is the parent's own account
with the verdict, `account` puts into it what is heard, and `summary` says the `result`.
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
    """Runs the demo, tells its result line by line, and returns the exit code.

    Args:
        settings: How it runs.
        tell: Is given each line.

    Returns:
        0 where every promise was kept, 1 where one was broken.
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
