"""`delaymq spark archive`: finished messages as Parquet."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import delaymq
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.stores import folder_of, settings_of
from delaymq.cli.output.terminal import count_words, table
from delaymq.cli.spark.session import add_running, add_snapshot, session, stretches
from delaymq.durations import moment

if TYPE_CHECKING:
    from delaymq.spark.jobs import Archived

EXAMPLES = (
    "delaymq spark archive --parquet ./archive --store ./data",
    "delaymq spark archive --parquet ./archive --before-retire --master 'local[2]' --json --store ./data",
)


def add_archive(parts: Verbs) -> None:
    """Adds the verb."""
    verb = add_verb(
        parts,
        "archive",
        run_archive,
        summary="write finished messages as Parquet",
        details="Writes by subject and day. Each end is written once, even if the job is killed and run "
        "again: a run goes on where the one before ended. Ends with code 1 if facts were retired "
        'since then, and says which. Needs `pip install "delaymq[spark]"` and Java 17.',
        examples=EXAMPLES,
    )
    verb.add_argument(
        "--parquet", required=True, type=Path, metavar="DIR", help="the archive, which is created if it is missing"
    )
    verb.add_argument(
        "--before-retire",
        action="store_true",
        help="the store keeps its log until the next run has archived it; a run without this option ends that",
    )
    add_snapshot(verb)
    add_running(verb, "one JSON object")
    verb.set_defaults(verb="spark archive")


def run_archive(chosen: argparse.Namespace) -> int:
    """Runs the archive, and prints what is new."""
    folder = folder_of(chosen, settings_of(chosen))
    from delaymq.spark import TableOptions  # noqa: PLC0415 - PySpark is asked for here alone
    from delaymq.spark.jobs import archive  # noqa: PLC0415

    delaymq.snapshot(folder, name=chosen.snapshot).close()  # reports a wrong folder at once, before Java starts
    with session(chosen.master) as spark:
        asked = TableOptions(path=str(folder.absolute()), snapshot=chosen.snapshot)
        done = archive(spark, asked, chosen.parquet.absolute(), before_retire=chosen.before_retire)
    if chosen.json:
        print(json.dumps({**asdict(done.manifest), "is_new": done.is_new, "outcomes": done.outcomes}))
    else:
        _print(done, chosen.parquet)
    is_later = done.is_new and done.manifest.run > 1
    return Exit.FOUND if is_later and done.manifest.missed else Exit.DONE


def _print(done: Archived, path: Path) -> None:
    manifest = done.manifest
    if done.is_new:
        print(f"{count_words(manifest.rows, 'row')} in run {manifest.run} of {path}")
    else:
        print(f"nothing is new since run {manifest.run} of {path}")
    print(f"all that ended until {moment(manifest.ended_ms):%Y-%m-%d %H:%M:%S} UTC is there")
    if done.is_new and manifest.missed:
        print(f"not archived: what sequences {stretches(manifest.missed)} told, retired before")
    if done.outcomes:
        print()
        print(table(("outcome", "rows"), [(word, f"{rows:,}") for word, rows in done.outcomes.items()], sys.stdout))
