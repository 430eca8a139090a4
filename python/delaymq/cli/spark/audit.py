"""`delaymq spark audit`: an account of every message of a store."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import delaymq
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb, count, delay
from delaymq.cli.input.stores import folder_of, settings_of
from delaymq.cli.output.terminal import message_words, table
from delaymq.cli.spark.session import add_running, add_snapshot, new_folder, session, stretches

if TYPE_CHECKING:
    from delaymq.spark.jobs.audit import Audit

ROWS = 20

EXAMPLES = (
    "delaymq spark audit --store ./data",
    "delaymq spark audit --stuck-after 1d --rows 100 --store ./data",
    "delaymq spark audit --parquet ./findings --json --store ./data",
)


def add_audit(parts: Verbs) -> None:
    """Adds the verb."""
    verb = add_verb(
        parts,
        "audit",
        run_audit,
        summary="account for every message",
        details="Reports lost, duplicated, early, corrupt and stuck messages, and how late messages were. "
        "Reads the files without the store's lock, also while a server has it. Ends with code 1 if "
        'something is wrong. Needs `pip install "delaymq[spark]"` and Java 17.',
        examples=EXAMPLES,
    )
    verb.add_argument(
        "--stuck-after",
        type=delay,
        metavar="DURATION",
        help="a message that waits for longer is stuck (default 1h): due and not dispatched, ready and "
        "not taken, or delivered and neither acknowledged nor given back",
    )
    verb.add_argument("--parquet", metavar="DIR", help="write the findings as Parquet into a new folder")
    verb.add_argument("--rows", type=count, default=ROWS, metavar="N", help=f"findings shown (default {ROWS})")
    add_snapshot(verb)
    add_running(verb, "one JSON object")
    verb.set_defaults(verb="spark audit")


def run_audit(chosen: argparse.Namespace) -> int:
    """Runs the audit, writes the findings, and prints."""
    folder = folder_of(chosen, settings_of(chosen))
    parquet = new_folder("--parquet", chosen.parquet)
    from delaymq.spark import TableOptions  # noqa: PLC0415 - PySpark is asked for here alone
    from delaymq.spark.jobs import STUCK_AFTER, audit, findings_frame  # noqa: PLC0415

    delaymq.snapshot(folder, name=chosen.snapshot).close()  # reports a wrong folder at once, before Java starts
    with session(chosen.master) as spark:
        after = STUCK_AFTER if chosen.stuck_after is None else chosen.stuck_after
        found = audit(spark, TableOptions(path=str(folder.absolute()), snapshot=chosen.snapshot), stuck_after=after)
        if parquet is not None:
            findings_frame(spark, found).write.parquet(parquet)
    if chosen.json:
        print(json.dumps(_said(found), ensure_ascii=False))
    else:
        _print(found, chosen.rows)
    return Exit.DONE if found.is_clean else Exit.FOUND


def _said(found: Audit) -> dict[str, object]:
    late = {
        name: {f"p{percent}": value for percent, value in percentiles.items()}
        for name, percentiles in (
            ("dispatched_late_ms", found.dispatched_late_ms),
            ("delivered_late_ms", found.delivered_late_ms),
        )
    }
    findings = [asdict(one) for one in found.findings]
    return {**asdict(found), "as_of": found.as_of.isoformat(), "findings": findings, **late}


def _print(found: Audit, rows: int) -> None:
    print(f"{message_words(found.messages)}, sequences {found.first_sequence} to {found.end_sequence - 1}, ", end="")
    print(f"as of {found.as_of:%Y-%m-%d %H:%M:%S} UTC")
    if found.dispatch_held:
        print("dispatch was held then, since the wall clock was not believed: what is due waits for that")
    if found.not_audited:
        print(f"not audited: sequences {stretches(found.not_audited)}, retired before")
    print()
    print(table(("outcome", "rows"), [(word, f"{number:,}") for word, number in found.outcomes.items()], sys.stdout))
    late = [
        (name, *(f"{value:,} ms" for value in percentiles.values()))
        for name, percentiles in (("dispatched", found.dispatched_late_ms), ("delivered", found.delivered_late_ms))
        if percentiles
    ]
    if late:
        percents = found.dispatched_late_ms or found.delivered_late_ms
        print()
        print(table(("late", *(f"p{percent}" for percent in percents)), late, sys.stdout))
    print()
    print(table(("wrong", "messages"), [(kind, f"{number:,}") for kind, number in found.found.items()], sys.stdout))
    if not found.is_clean:
        _print_findings(found, rows)


def _print_findings(found: Audit, rows: int) -> None:
    lines = [
        (one.kind, "" if one.sequence is None else one.sequence, one.subject or "", one.group or "", one.words)
        for one in found.findings[:rows]
    ]
    print()
    print(table(("kind", "sequence", "subject", "group", "what"), lines, sys.stdout))
    more = sum(found.found.values()) - len(lines)
    if more > 0:
        print(f"and {more:,} more")
