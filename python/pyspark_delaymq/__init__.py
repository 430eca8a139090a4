"""Entry point for PySpark, which imports a module of this name for the format `delaymq`: `DefaultSource`."""

from delaymq.spark.source import DelaymqDataSource as DefaultSource

__all__ = ["DefaultSource"]
