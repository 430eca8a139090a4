"""What Python imports when it starts with this folder on its path: in a daemon of Spark, all that its workers need.

Spark forks a worker from a daemon for each task and each step of a plan, and a worker that reads a table or stages rows
imports for more than half a second of a processor. Spark imports after the fork because a module may start threads:
`forked.ALONE` keeps those here from it. Lines are not counted in a worker, which ends without telling.
"""

from __future__ import annotations

import sys

NEEDED = (
    "delaymq.spark.source",
    "delaymq.spark.write",
    "pandas",
    "pyarrow",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
)

if "pyspark.daemon" in sys.orig_argv:
    import atexit
    import gc
    from importlib import import_module
    from pathlib import Path

    import coverage

    begun = getattr(coverage.process_startup, "coverage", None)
    if begun is not None:
        begun.stop()
        atexit._clear()
    for name in NEEDED:
        import_module(name)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        sys.exit("a module that is imported for the workers has started a thread")
    gc.freeze()
