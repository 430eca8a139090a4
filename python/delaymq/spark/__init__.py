"""The logs of a store as tables of PySpark, and loads into one. Install it with `pip install "delaymq[spark]"`; Java 17
does the rest.

::

    from delaymq.spark import local_session, register

    spark = local_session()
    register(spark)
    spark.read.format("delaymq").option("log", "message").load("./data").groupBy("subject").count().show()

`df.write.format("delaymq")` and `df.writeStream` store messages at once, by one load.
`read_table` is a whole table for less than a load. `map_segments` and `segment_rdd` give each task the batches of its
own part of the log, so that what is asked can be counted where the bytes are. Nothing else of delaymq imports pyspark.
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
