"""`delaymq spark forecast`: pending messages by minute and subject."""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import delaymq
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb, count, moment
from delaymq.cli.input.stores import folder_of, settings_of
from delaymq.cli.output.terminal import byte_words, count_words, table
from delaymq.cli.spark.session import add_running, add_snapshot, new_folder, session
from delaymq.cli.verbs.forecast import ROWS, print_picture
from delaymq.durations import due_ms
from delaymq.forecast import Forecast, Slots

if TYPE_CHECKING:
    from delaymq.spark.jobs import Due

SUBJECTS = 20
"""The number of subjects in the table."""

EXAMPLES = (
    "delaymq spark forecast --store ./data",
    "delaymq spark forecast --subject order.timeout --due-before 2030-01-02T00:00:00Z --html due.html --store ./data",
    "delaymq spark forecast --parquet ./due --master 'local[2]' --json --store ./data",
)


def add_forecast(parts: Verbs) -> None:
    """Adds the verb."""
    verb = add_verb(
        parts,
        "forecast",
        run_forecast,
        summary="show pending messages by minute and subject",
        details="Exact, for all subjects at once. Reads the files without the store's lock, also while a "
        'server has it. Needs `pip install "delaymq[spark]"` and Java 17.',
        examples=EXAMPLES,
    )
    verb.add_argument(
        "--subject", action="append", dest="subjects", metavar="SUBJECT", help="only this subject; may be repeated"
    )
    verb.add_argument("--due-from", type=moment, metavar="TIME", help="only messages due at this time or later")
    verb.add_argument("--due-before", type=moment, metavar="TIME", help="only messages due before this time")
    verb.add_argument("--html", type=Path, metavar="FILE", help="write a self-contained page with charts")
    verb.add_argument("--parquet", metavar="DIR", help="write minutes and subjects as Parquet into a new folder")
    verb.add_argument("--rows", type=count, default=ROWS, metavar="N", help=f"lines of the chart (default {ROWS})")
    add_snapshot(verb)
    add_running(verb, "one JSON object for each minute and subject")
    verb.set_defaults(verb="spark forecast")


def run_forecast(chosen: argparse.Namespace) -> int:
    """Counts, writes the files that were asked for, and prints."""
    folder = folder_of(chosen, settings_of(chosen))
    parquet = new_folder("--parquet", chosen.parquet)
    from delaymq.spark import TableOptions  # noqa: PLC0415 - PySpark is asked for here alone
    from delaymq.spark.jobs import forecast, page, told  # noqa: PLC0415

    asked = TableOptions(
        path=str(folder.absolute()),
        log="pending",
        subjects=None if chosen.subjects is None else tuple(chosen.subjects),
        due_from=chosen.due_from,
        due_before=chosen.due_before,
        snapshot=chosen.snapshot,
    )
    # Taken before Java starts, so that a wrong folder is reported at once. The pin ends when everything is written.
    taken = delaymq.snapshot(folder, pinned_for=asked.pinned_for, name=asked.snapshot)
    with taken as snapshot, session(chosen.master) as spark:
        frame = forecast(spark, asked, snapshot).cache()
        found = told(frame)
        if parquet is not None:
            frame.write.parquet(parquet)
    if chosen.html is not None:
        chosen.html.write_text(page(found, title=f"Due in {folder}"), encoding="utf-8")
    if chosen.json:
        for one in found:
            print(json.dumps(_said(one), ensure_ascii=False))
    else:
        _print(found, chosen.rows)
    return Exit.DONE


def _said(one: Due) -> dict[str, object]:
    return {"minute": one.start.isoformat(), "subject": one.subject, "messages": one.messages, "bytes": one.bytes}


def _print(found: Sequence[Due], rows: int) -> None:
    """Returns the chart, and the largest subjects."""
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
        print(f"and {count_words(len(subjects) - SUBJECTS, 'more subject')}")
