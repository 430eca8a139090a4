"""`delaymq spark`: what PySpark counts in a store, on the cores of this machine or of a cluster."""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import delaymq
from delaymq import errors
from delaymq.cli.arguments import CommandParser, add_verb, count, moment
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.forecast import ROWS, print_picture
from delaymq.cli.opening import add_files, folder_of, settings_of
from delaymq.cli.terminal import byte_words, table
from delaymq.durations import due_ms
from delaymq.errors import DelaymqError, StoreError
from delaymq.forecast import Forecast, Slots

if TYPE_CHECKING:
    from delaymq.cli.arguments import Verbs
    from delaymq.spark.jobs import Due

__all__ = ["add_to"]

RAISED = re.compile(r"delaymq\.errors\.(?P<kind>\w+): (?P<words>[^\n]*)")

SUBJECTS = 20
"""Subjects of a table."""

EXAMPLES = (
    "delaymq spark forecast --store ./data",
    "delaymq spark forecast --subject order.timeout --due-before 2030-01-02T00:00:00Z --html due.html --store ./data",
    "delaymq spark forecast --parquet ./due --master 'local[2]' --json --store ./data",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(verbs, "spark", None, summary="count in a store with PySpark", examples=EXAMPLES)
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    _add_forecast(parts)


def _add_forecast(parts: Verbs) -> None:
    verb = add_verb(
        parts,
        "forecast",
        run_forecast,
        summary="show what is due by minute and subject",
        details="Exact, for all subjects at once, read from the files without the store's lock, also while a server "
        'has it. Needs `pip install "delaymq[spark]"` and Java 17.',
        examples=EXAMPLES,
    )
    verb.add_argument(
        "--subject", action="append", dest="subjects", metavar="SUBJECT", help="only this one; repeatable"
    )
    verb.add_argument("--due-from", type=moment, metavar="TIME", help="only what is due at this time or later")
    verb.add_argument("--due-before", type=moment, metavar="TIME", help="only what is due before this time")
    verb.add_argument("--html", type=Path, metavar="FILE", help="write a page with a chart, which needs nothing else")
    verb.add_argument("--parquet", metavar="DIR", help="write minutes and subjects as Parquet into a new folder")
    verb.add_argument("--rows", type=count, default=ROWS, metavar="N", help=f"lines of the picture (default {ROWS})")
    verb.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where it runs (default: all cores here): a master of Spark, or sc://HOST:PORT for Spark Connect",
    )
    verb.add_argument("--json", action="store_true", help="one JSON object for each minute and subject")
    add_files(verb, "give --store DIR, which may be open meanwhile")
    verb.set_defaults(verb="spark forecast")


def run_forecast(chosen: argparse.Namespace) -> int:
    """Counts, writes what is to be written, and prints."""
    folder = folder_of(chosen, settings_of(chosen))
    if chosen.parquet is not None and Path(chosen.parquet).exists():
        raise UsageError(f"--parquet: {chosen.parquet} is there already, and nothing is written over")
    from delaymq.spark import TableOptions  # noqa: PLC0415 - PySpark is asked for here alone
    from delaymq.spark.jobs import forecast, page, told  # noqa: PLC0415

    asked = TableOptions(
        path=str(folder.absolute()),
        log="pending",
        subjects=None if chosen.subjects is None else tuple(chosen.subjects),
        due_from=chosen.due_from,
        due_before=chosen.due_before,
    )
    delaymq.snapshot(folder).close()  # what is no store is told at once, and not when Java is up
    with _session(chosen.master) as spark:
        frame = forecast(spark, asked).cache()
        found = told(frame)
        if chosen.parquet is not None:
            frame.write.parquet(str(Path(chosen.parquet).absolute()))
    if chosen.html is not None:
        chosen.html.write_text(page(found, title=f"Due in {folder}"), encoding="utf-8")
    if chosen.json:
        for one in found:
            print(json.dumps(_said(one), ensure_ascii=False))
    else:
        _print(found, chosen.rows)
    return Exit.DONE


@contextmanager
def _session(master: str) -> Iterator[Any]:
    """A session of this command, which says nothing by itself."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    from delaymq.spark.session import session_at, silenced  # noqa: PLC0415

    with silenced():
        spark = session_at(master)
    try:
        yield spark
    except PySparkException as error:
        raise _ours(str(error)) from error
    finally:
        spark.stop()


def _ours(said: str) -> DelaymqError:
    """What a task raised, of which Spark gives the words."""
    found = RAISED.search(said)
    kind = None if found is None else getattr(errors, found["kind"], None)
    if found is None or kind is None:
        return StoreError(f"Spark: {said.strip().partition(chr(10))[0]}")
    raised: DelaymqError = kind(found["words"])
    return raised


def _said(one: Due) -> dict[str, object]:
    return {"minute": one.start.isoformat(), "subject": one.subject, "messages": one.messages, "bytes": one.bytes}


def _print(found: Sequence[Due], rows: int) -> None:
    """The picture, and the largest subjects."""
    from delaymq.spark.jobs import summed  # noqa: PLC0415 - as above

    minutes = sorted(summed(found, lambda one: one.start).items())
    slots = Slots(b"".join(struct.pack("=QQQ", due_ms(start, "minute"), *sums) for start, sums in minutes))
    print_picture(Forecast(slots, timedelta(minutes=1), 0), rows)
    if not found:
        return
    subjects = summed(found, lambda one: one.subject)
    lines = [(subject, messages, byte_words(size)) for subject, (messages, size) in islice(subjects.items(), SUBJECTS)]
    print()
    print(table(("subject", "messages", "bytes"), lines, sys.stdout))
    if len(subjects) > SUBJECTS:
        print(f"and {len(subjects) - SUBJECTS:,} more subjects")
