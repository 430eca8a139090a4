"""`delaymq simulate`: predicts how late pending messages will be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb, count, delay, duration, moment
from delaymq.cli.input.stores import add_files, folder_of, settings_of
from delaymq.cli.output.terminal import Bar, message_words, print_list
from delaymq.simulate import RECURRING_MAX, Predicted, simulate

MINUTE_S = 60

EXAMPLES = (
    "delaymq simulate --rate 500 --to 2030-01-02T00:00:00Z --store ./data",
    "delaymq simulate --rate 500 --rate order.timeout=2000 --to 2030-01-02T00:00:00Z --late-after 1m --store ./data",
)

HEADS = ("subject", "group", "rate/s", "messages", "p50", "p99", "latest", "due (UTC)", "backlog", "left")


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "simulate",
        run,
        summary="predict how late pending messages will be, for consumers of a given rate",
        details="Copies the store, runs the copy on a clock that goes as fast as it can, and delivers its "
        "messages to consumers of the given rate. Changes nothing in the store, which a server may "
        "have open. No new messages are published. The code is 1 if a message is later than --late-"
        "after.",
        examples=EXAMPLES,
    )
    verb.add_argument(
        "--rate",
        action="append",
        required=True,
        type=_rate,
        metavar="[SUBJECT=]N",
        help="messages a second that each group handles, or each group of a subject; may be repeated",
    )
    verb.add_argument("--from", dest="start", type=moment, metavar="TIME", help="when to begin (default: now)")
    verb.add_argument("--to", dest="until", type=moment, required=True, metavar="TIME", help="when to stop")
    verb.add_argument(
        "--speed", type=float, metavar="N", help="at most this many times real time (default: as fast as possible)"
    )
    verb.add_argument("--step", type=duration, default=timedelta(seconds=1), metavar="TIME", help="(default 1s)")
    verb.add_argument(
        "--recurring-max",
        type=count,
        default=RECURRING_MAX,
        metavar="N",
        help=f"refuse if series send more messages than this (default {RECURRING_MAX:,})",
    )
    verb.add_argument("--late-after", type=delay, metavar="TIME", help="a message that is later than this is too late")
    verb.add_argument("--folder", type=Path, metavar="DIR", help="folder for the copy (default: next to the store)")
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_files(verb, "give --store DIR where it lies; the server may go on")


def _rate(text: str) -> tuple[str | None, float]:
    subject, equals, number = text.rpartition("=")
    try:
        return (subject if equals else None), float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected N or SUBJECT=N, found {text!r}") from None


def run(chosen: argparse.Namespace) -> int:
    """Simulates and prints."""
    whole = [rate for subject, rate in chosen.rate if subject is None]
    if len(whole) != 1:
        raise UsageError(f"--rate: expected one for all groups, found {len(whole)}")
    with Bar("simulated", sys.stderr) as bar:
        found = simulate(
            folder_of(chosen, settings_of(chosen)),
            until=chosen.until,
            rate=whole[0],
            rates={subject: rate for subject, rate in chosen.rate if subject is not None},
            start=chosen.start,
            speed=chosen.speed,
            step=chosen.step,
            folder=chosen.folder,
            recurring_max=chosen.recurring_max,
            progress=_Shown(bar, chosen.until).show,
        )
    print_list(found, _said, HEADS, _row, as_json=chosen.json, nothing="nothing becomes due by then")
    late = chosen.late_after is not None and any(one.late_max > chosen.late_after for one in found)
    return Exit.FOUND if late else Exit.DONE


class _Shown:
    """Shows the progress."""

    def __init__(self, bar: Bar, until: datetime) -> None:
        self._bar, self._until = bar, until
        self._start: datetime | None = None

    def show(self, now: datetime, came: int) -> None:
        self._start = self._start or now
        whole = max(1, int((self._until - self._start).total_seconds()))
        words = f"{now:%Y-%m-%d %H:%M:%S}, {message_words(came)}"
        self._bar.show(int((now - self._start).total_seconds()), whole, words)


def _said(one: Predicted) -> dict[str, object]:
    said = asdict(one)
    for name in ("late_p50", "late_p99", "late_max"):
        said[f"{name}_ms"] = round(said.pop(name) / timedelta(milliseconds=1), 3)
    for name in ("worst_due", "backlog_max_at"):
        said[name] = None if said[name] is None else said[name].isoformat()
    return said


def _row(one: Predicted) -> Sequence[object]:
    due = "" if one.worst_due is None else f"{one.worst_due:%Y-%m-%d %H:%M:%S}"
    late = [_words(span) for span in (one.late_p50, one.late_p99, one.late_max)]
    counts = (f"{one.backlog_max:,}", f"{one.unfinished:,}")
    return (one.subject, one.group, f"{one.rate_per_s:g}", f"{one.messages:,}", *late, due, *counts)


def _words(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < MINUTE_S else str(timedelta(seconds=round(seconds)))
