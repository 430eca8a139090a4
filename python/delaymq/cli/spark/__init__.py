"""`delaymq spark`: jobs that count in a store with PySpark, rebuild its runs or load into it, here or on a cluster."""

from __future__ import annotations

from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb
from delaymq.cli.spark import archive, audit, forecast, load, rebuild

EXAMPLES = tuple(part.EXAMPLES[0] for part in (forecast, audit, archive, rebuild, load))


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(verbs, "spark", None, summary="count in a store with PySpark, or load into it", examples=EXAMPLES)
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    forecast.add_forecast(parts)
    audit.add_audit(parts)
    archive.add_archive(parts)
    rebuild.add_rebuild(parts)
    load.add_load(parts)
