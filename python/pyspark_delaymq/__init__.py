"""PySpark imports modules of such a name where a format is asked for first, and takes their `DefaultSource`."""

from delaymq.spark.source import DelaymqDataSource as DefaultSource

__all__ = ["DefaultSource"]
