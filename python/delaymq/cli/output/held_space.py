"""The holders of a store's space, and why they hold it: the last part of the output of `delaymq inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from delaymq.cli.output.terminal import byte_words, cut, span_words, strong, table
from delaymq.inspection import Holder, InspectedFile, Inspection

REASONS = {
    "dead_group": "groups that nobody consumes for now",
    "group": "groups with consumers, by name: who has a lasting name may be gone",
    "dead_letters": "dead letters",
    "no_group": "ready messages that no group consumes",
    "pending": "pending messages",
    "replay": "what an open applies",
    "pin": "pins of readers",
    "archive": "archives that have not got it yet",
    "finished": "finished, until it is older than keep_finished (72h by default)",
    "upkeep": "checkpoints and prepared segments",
    "aside": "set aside by repairs",
}
CLOSED = {"dead_group": "groups without a consumer: nobody can be connected to a closed store"}
HELD_KINDS = ("segment", "schedule_run", "dispatch_run", "unused_run")
NAMED_MAX = 3


def held_space(seen: Inspection, most: int, out: TextIO) -> Iterator[str]:
    """Yields the reasons with their bytes, the holders, each file, and the action that gives the most space back."""
    reasons: list[tuple[object, ...]] = [
        (_reason(held.reason, seen), held.holders or "", byte_words(held.bytes), byte_words(held.alone))
        for held in seen.space
    ]
    yield ""
    yield table(("why space is held", "who", "size", "alone"), reasons, out)
    if not seen.holders:
        return
    rows, more = cut([_row(holder, seen) for holder in seen.holders], most)
    yield ""
    yield table(("needed from", "begun", "size", "alone", "why"), rows, out)
    yield from more
    files = [file for file in seen.files if file.kind in HELD_KINDS]
    rows, more = cut([_file_row(file, seen) for file in files], most)
    yield ""
    yield table(("file", "size", "pending", "held by"), rows, out)
    yield from more
    for pin in (holder for holder in seen.holders if holder.kind == "pin"):
        yield f"nothing is removed while the pin {pin.pin} is there"
    yield from _most_room(seen, out)


def named(subject: str) -> str:
    """Returns a subject in words. Subjects that a store makes for a group are named after both."""
    for prefix, words in (("%RETRY%", "given back"), ("%DEAD_RETRY%", "dead letters")):
        if subject.startswith(prefix):
            name, _, group = subject.removeprefix(prefix).rpartition("%")
            return f"{name} ({words} by {group})"
    return subject


def _reason(reason: str, seen: Inspection) -> str:
    # Consumers are known only for an open store: a close, or a crash, ends all but lasting consumers.
    return REASONS[reason] if seen.open_in else CLOSED.get(reason, REASONS[reason])


def _row(holder: Holder, seen: Inspection) -> tuple[object, ...]:
    begun = f"{span_words(seen.seen - holder.begun)} ago" if holder.begun else ""
    return (_from(holder), begun, byte_words(holder.bytes), byte_words(holder.alone), _why(holder, seen))


def _from(holder: Holder) -> str:
    if holder.kind == "pin":
        return "everything"
    return "runs only" if holder.segment is None else f"segment {holder.segment}"


def _why(holder: Holder, seen: Inspection) -> str:
    who, count = _who(holder), f"{holder.messages:,}"
    since = f", for {span_words(seen.seen - holder.consumer_ended)}" if holder.consumer_ended else ""
    dead = f", and nobody consumes for it now{since}" if seen.open_in and not holder.consumers else ""
    ends = f", and ends in {span_words(holder.expires - seen.seen)}" if holder.expires else ""
    words = {
        "group": f"{who} has {count} not finished{dead}",
        "dead_letters": f"{count} {who}",
        "no_group": f"{count} {who}, which no group consumes",
        "pending": f"{count} {who}",
        "checkpoint": f"{who} is kept, and reads from there",
        "pin": f"{who} is there{ends}",
        "archive": f"{who} has not got it yet",
        "replay": f"{who} applies the log from there on",
    }
    return words[holder.kind]


def _who(holder: Holder) -> str:
    came = "that came after the last checkpoint" if holder.number is None else f"in run {holder.number}"
    words = {
        "group": f"group {holder.group} of {named(holder.subject or '')}",
        "dead_letters": f"dead letters of group {holder.group} of {holder.subject}",
        "no_group": f"ready on {holder.subject}",
        "pending": f"pending {came}",
        "checkpoint": f"checkpoint {holder.number}",
        "pin": f"pin {holder.pin}",
        "archive": f"the archive of {holder.pin}",
        "replay": "an open",
    }
    return words[holder.kind]


def _file_row(file: InspectedFile, seen: Inspection) -> tuple[object, ...]:
    who = ", ".join(_who(seen.holders[place]) for place in file.held_by[:NAMED_MAX])
    more = file.held_by_count - min(len(file.held_by), NAMED_MAX)
    words = f"{who} and {more:,} more" if more else who or "nobody: it goes when it is old enough"
    if file.kept_until and file.kept_until > seen.seen:
        whose = f" for {file.kept_for}" if file.kept_for else ""
        words += f"; kept{whose} for {span_words(file.kept_until - seen.seen)} more"
    if file.hole_bytes:
        words += f"; of {byte_words(file.bytes)} the rest takes no room"
    return (file.path, byte_words(file.bytes - file.hole_bytes), file.pending, words)


def _most_room(seen: Inspection, out: TextIO) -> Iterator[str]:
    """Returns what an operator may end to get the most space back."""
    ended = [holder for holder in seen.holders if _may_be_ended(holder, seen) and holder.alone]
    if ended:
        most = max(ended, key=lambda holder: holder.alone)
        size = byte_words(most.alone)
        begin = f"{strong('most room', out)} comes back without {_who(most)}: {size}"
        # A pin holds files that have no other use: finished and old ones.
        old = "once older than keep_finished (72h by default), two checkpoints later"
        yield f"{begin}, {'at once' if most.kind == 'pin' else old}"


def _may_be_ended(holder: Holder, seen: Inspection) -> bool:
    is_dead = holder.kind == "group" and seen.open_in is not None and not holder.consumers
    return is_dead or holder.kind in ("dead_letters", "no_group", "pin", "archive")
