"""PySpark data source: the tables of a store as DataFrames, and bulk loads. Needs `delaymq[spark]` and Java 17.

Enter: a session, and the options of a store. Leave: DataFrames of its tables, or messages stored by one load.
Read `source` first (the data source), then `plan` and `scan` (parts, and the tasks that read them), `stream`, and
`write` with `staging` and `destination` (loads). `jobs` are audits, archives, forecasts, loads and rebuilds.

::

    from delaymq.spark import local_session, register

    spark = local_session()
    register(spark)
    spark.read.format("delaymq").option("log", "message").load("./data").groupBy("subject").count().show()

`df.write.format("delaymq")` and `df.writeStream` store messages by bulk loads. `read_table` reads a whole table at
less cost than `load`. `map_segments` and `segment_rdd` give each task the batches of its own part of the log.
"""

from delaymq.spark.environment import MissingSpark, require_spark
from delaymq.spark.plan import TableOptions, explain

__all__ = [
    "LostBeforeRead",
    "MissingSpark",
    "TableOptions",
    "damages",
    "explain",
    "local_session",
    "map_segments",
    "read_table",
    "register",
    "segment_rdd",
]

require_spark()

from delaymq.spark.scan import damages, map_segments, read_table, segment_rdd  # noqa: E402 - what is missing is said first
from delaymq.spark.session import local_session  # noqa: E402
from delaymq.spark.source import register  # noqa: E402
from delaymq.spark.stream import LostBeforeRead  # noqa: E402
