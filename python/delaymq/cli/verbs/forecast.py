"""`delaymq forecast`: pending messages by minute or second, as a chart or for a program."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb, count, moment
from delaymq.cli.input.stores import add_place, open_queue
from delaymq.cli.output.terminal import byte_words, can_show, message_words, strong
from delaymq.durations import begin_of
from delaymq.forecast import Forecast

ROWS = 24
"""The number of lines of a chart."""
WIDTHS = tuple(
    timedelta(**{unit: number})
    for unit, number in (
        *(("seconds", number) for number in (1, 5, 15)),
        *(("minutes", number) for number in (1, 5, 15)),
        *(("hours", number) for number in (1, 6)),
        *(("days", number) for number in (1, 7, 30, 365)),
    )
)
"""The spans of time that a line may cover."""
BAR_COLUMNS_MIN = 10


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "forecast",
        run,
        summary="show how many messages and bytes are due when",
        details="Exact, by minutes for all pending messages, or by seconds for an hour. The chart joins "
        "minutes to fit its lines; --json prints each. Changes nothing, and delays no message.",
        examples=(
            "delaymq forecast --store ./data",
            "delaymq forecast order.timeout --due-before 2030-01-01T00:00:00Z --server delaymq://127.0.0.1:20801",
            "delaymq forecast --seconds --json --store ./data",
        ),
    )
    verb.add_argument("subject", nargs="?", metavar="SUBJECT", help="only this subject")
    verb.add_argument(
        "--due-from", type=moment, metavar="TIME", help="from this time on; with --seconds from now by default"
    )
    verb.add_argument(
        "--due-before", type=moment, metavar="TIME", help="up to this time; with --seconds an hour at most"
    )
    verb.add_argument("--seconds", action="store_true", help="by seconds, for an hour")
    verb.add_argument("--rows", type=count, default=ROWS, metavar="N", help=f"lines of the chart (default {ROWS})")
    verb.add_argument("--json", action="store_true", help="one JSON object for each minute, or second")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Gets the forecast, and draws or prints it."""
    with open_queue(chosen) as store:
        found = store.forecast(
            chosen.subject, due_from=chosen.due_from, due_before=chosen.due_before, seconds=chosen.seconds
        )
    if chosen.json:
        for slot in found.slots:
            print(json.dumps({"start": slot.start.isoformat(), "messages": slot.messages, "bytes": slot.bytes}))
    else:
        print_picture(found, chosen.rows)
    if found.hidden_rows:
        words = f"not counted, in damaged blocks of files: up to {message_words(found.hidden_rows)}"
        print(f"delaymq: {words}; `delaymq verify` names them", file=sys.stderr)
        return Exit.PART
    return Exit.DONE


def print_picture(found: Forecast, rows: int) -> None:
    """Draws the chart as wide as the terminal."""
    block = "\u2588" if can_show("\u2588", sys.stdout) else "#"
    for line in drawn(found, rows, shutil.get_terminal_size().columns, block):
        print(line)


def drawn(found: Forecast, rows: int, columns: int, block: str) -> Iterator[str]:
    """Returns the lines of a chart: a heading, and a bar for each span of time that has messages."""
    busiest = found.busiest
    if busiest is None:
        yield "nothing is due"
        return
    each = "second" if found.width < timedelta(minutes=1) else "minute"
    when = f"{busiest.start:%Y-%m-%d %H:%M:%S}"
    total = f"{message_words(found.messages)}, {byte_words(found.bytes)}"
    yield f"{total}; most in the {each} of {when}: {busiest.messages:,}"
    width, spans = _joined(found, max(rows, 1))
    most = max(messages for messages, _ in spans.values())
    numbers = len(f"{most:,}")
    sizes = max(len(byte_words(size)) for _, size in spans.values())
    room = max(columns - len("2030-01-01 00:00:00") - numbers - sizes - 7, BAR_COLUMNS_MIN)
    head = f"{'due (UTC)':<19}  {'messages':>{max(numbers, 8)}}  {'bytes':>{sizes}}  a line is {_words(width)}"
    yield strong(head, sys.stdout)
    for start, (messages, size) in spans.items():
        bar = block * max(1, round(messages / most * room))
        numbered = f"{messages:>{max(numbers, 8)},}  {byte_words(size):>{sizes}}"
        yield f"{start:%Y-%m-%d %H:%M:%S}  {numbered}  {bar}"


def _joined(found: Forecast, rows: int) -> tuple[timedelta, dict[datetime, tuple[int, int]]]:
    """Joins minutes into the smallest spans that fit the number of lines, with their counts."""
    fitting = [width for width in WIDTHS if width >= found.width]
    for width in fitting:
        spans: dict[datetime, tuple[int, int]] = {}
        for slot in found.slots:
            start = begin_of(slot.start, width)
            messages, size = spans.get(start, (0, 0))
            spans[start] = (messages + slot.messages, size + slot.bytes)
            if len(spans) > rows and width is not fitting[-1]:
                break
        else:
            return width, spans
    raise AssertionError(fitting)


def _words(width: timedelta) -> str:
    """Returns a span in readable units."""
    seconds = int(width.total_seconds())
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0:
            number = seconds // size
            return f"a {word}" if number == 1 and word != "hour" else f"{number} {word}{'s' if number > 1 else ''}"
    raise AssertionError(width)
