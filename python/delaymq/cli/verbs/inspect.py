"""`delaymq inspect`: shows what is in a store, without its lock."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb, duration
from delaymq.cli.input.stores import add_files, folder_of, kept_of, settings_of
from delaymq.cli.output.held_space import held_space, named
from delaymq.cli.output.terminal import alarming, byte_words, clear, count_words, cut, span_words, strong, table
from delaymq.inspection import Inspection
from delaymq.inspection import inspect as look

EVERY = timedelta(seconds=2)
EVERY_SECONDS_MAX = 10 * 365 * 86_400.0  # the system refuses to sleep much longer
BUSY_SHARE = 4  # an inspection takes at most a quarter of the time
ROWS_MAX = 20


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "inspect",
        run,
        summary="show what is in a store: messages, groups, files, and what holds space and why",
        details="Takes no lock, so another process may have the store open, and changes nothing.",
        examples=(
            "delaymq inspect --store ./data",
            "delaymq inspect --store ./data --watch",
            "delaymq inspect --store ./data --json | jq .groups",
        ),
    )
    verb.add_argument("--watch", action="store_true", help="repeat until Ctrl-C")
    verb.add_argument(
        "--every", type=duration, default=EVERY, metavar="TIME", help="time between two repetitions (default 2s)"
    )
    verb.add_argument("--all", action="store_true", help=f"every row of each table, not the first {ROWS_MAX}")
    verb.add_argument("--json", action="store_true", help="one JSON object for each repetition")
    add_files(verb, "give --store DIR where they lie, or ask a server with `delaymq status` and `delaymq groups list`")


def run(chosen: argparse.Namespace) -> int:
    """Shows the store, once or until it is interrupted. Returns 1 if a part cannot be read, and 4 if the store cannot
    be opened.
    """
    settings = settings_of(chosen)
    folder, kept = folder_of(chosen, settings), kept_of(settings)
    while True:
        began = time.monotonic()
        seen = look(folder, **kept)
        took = time.monotonic() - began
        if chosen.json:
            print(json.dumps(dataclasses.asdict(seen), default=_plain, ensure_ascii=False), flush=True)
        else:
            rows = sys.maxsize if chosen.all else ROWS_MAX
            words = "\n".join(_picture(seen, rows))
            print((clear(sys.stdout) if chosen.watch else "") + words, flush=True)
        if not chosen.watch:
            return Exit.DAMAGED if seen.refused else Exit.FOUND if seen.damaged else Exit.DONE
        time.sleep(min(max(chosen.every.total_seconds(), took * BUSY_SHARE), EVERY_SECONDS_MAX))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(value)


def _picture(seen: Inspection, rows: int) -> Iterator[str]:
    out = sys.stdout
    state = f"open in process {seen.open_in}" if seen.open_in else "closed" if seen.sealed else "not closed in order"
    yield f"{strong(seen.path, out)}: {state}, epoch {seen.epoch}, {seen.seen:%Y-%m-%d %H:%M:%S} UTC"
    if seen.register:
        coordinator, version = seen.register
        yield f"a copy in a cluster, which saw version {version} of the register of coordinator {coordinator:016x} last"
    due = f"; the next is due {_from(seen.next_due, seen.seen)}" if seen.next_due else ""
    yield f"{seen.pending:,} pending{due}; {seen.ready:,} ready; {seen.voided:,} given up as damaged"
    checkpoint = f"checkpoint {seen.checkpoint}" if seen.checkpoint else "no checkpoint"
    behind = f"{count_words(seen.facts_behind, 'fact')} ({byte_words(seen.bytes_behind)}) behind it to apply at an open"
    unconfirmed = f"; {count_words(seen.facts_unconfirmed, 'fact')} not confirmed yet" if seen.facts_unconfirmed else ""
    yield f"{checkpoint}, {behind}{unconfirmed}"
    if seen.refused:
        yield f"{alarming('DAMAGED', out)}: it cannot be opened: {seen.refused}"
        yield "what follows is as of the last fact before the first that is lost; see `delaymq salvage`"
    known = [words for words in seen.damaged if words != seen.refused]
    for words in known[:rows]:
        yield f"{alarming('DAMAGED', out)}: {words}"
    if len(known) > rows:
        yield f"… and {len(known) - rows:,} more; --all shows them"
    yield from _subjects(seen, rows)
    yield from _groups(seen, rows)
    yield from _files(seen)
    yield from held_space(seen, rows, sys.stdout)


def _from(due: datetime, now: datetime) -> str:
    left = due - now
    if left < timedelta(0):
        return f"for {span_words(-left)}"
    return f"in {span_words(left)}"


def _subjects(seen: Inspection, most: int) -> Iterator[str]:
    if not seen.subjects:
        return
    ordered = sorted(seen.subjects, key=lambda subject: (-subject.pending - subject.ready, subject.name))
    rows: list[tuple[object, ...]] = [
        (
            named(subject.name),
            subject.pending,
            _from(subject.next_due, seen.seen) if subject.next_due else "",
            subject.ready,
            subject.groups,
            subject.expired,
        )
        for subject in ordered
    ]
    rows, more = cut(rows, most)
    yield ""
    yield table(("subject", "pending", "next due", "ready", "groups", "expired"), rows, sys.stdout)
    yield from more


def _groups(seen: Inspection, most: int) -> Iterator[str]:
    if not seen.groups:
        return
    ordered = sorted(seen.groups, key=lambda group: (-group.lag, group.subject, group.name))
    rows: list[tuple[object, ...]] = [
        (group.name, named(group.subject), group.lag, group.in_flight, len(group.consumers), group.cursor)
        for group in ordered
    ]
    rows, more = cut(rows, most)
    yield ""
    yield table(("group", "subject", "lag", "in flight", "consumers", "cursor"), rows, sys.stdout)
    yield from more


KINDS = {
    "segment": "log segments",
    "preparing": "segments being prepared",
    "schedule_run": "runs of pending messages",
    "dispatch_run": "runs of ready messages",
    "unused_run": "runs that go at the next open",
    "checkpoint": "checkpoints",
    "aside": "set aside by repairs",
    "pin": "pins",
    "other": "other files",
}


def _files(seen: Inspection) -> Iterator[str]:
    counts, sizes = Counter[str](), Counter[str]()
    for file in seen.files:
        counts[file.kind] += 1
        sizes[file.kind] += file.bytes
    rows = [(words, counts[kind], byte_words(sizes[kind])) for kind, words in KINDS.items() if counts[kind]]
    yield ""
    yield table(("files", "count", "size"), rows, sys.stdout)
    yield f"{byte_words(sum(sizes.values()))} in all"
