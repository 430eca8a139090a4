"""`delaymq spark`: what PySpark counts in a store, makes again or loads into it, here or on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delaymq.cli import spark_archive, spark_audit, spark_forecast, spark_load, spark_rebuild
from delaymq.cli.arguments import CommandParser, add_verb

if TYPE_CHECKING:
    from delaymq.cli.arguments import Verbs

__all__ = ["add_to"]

EXAMPLES = tuple(part.EXAMPLES[0] for part in (spark_forecast, spark_audit, spark_archive, spark_rebuild, spark_load))


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(verbs, "spark", None, summary="count in a store with PySpark, or load into it", examples=EXAMPLES)
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    spark_forecast.add_forecast(parts)
    spark_audit.add_audit(parts)
    spark_archive.add_archive(parts)
    spark_rebuild.add_rebuild(parts)
    spark_load.add_load(parts)
