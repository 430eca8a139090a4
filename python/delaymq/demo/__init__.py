"""The demo: publish, kill the process with -9, start it again, and count.

`conductor` runs it and is the parent; `child` is the process that is killed; `plan` says what is
published; `frames` is what the child tells the parent; `ledger` is the parent's own account and
the verdict.
"""

from delaymq.demo.conductor import Settings, run

__all__ = ["Settings", "run"]
