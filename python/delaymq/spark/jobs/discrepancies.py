"""Comparison of two tables of a store: where their aggregates differ, the messages that cause it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

Rows: TypeAlias = Sequence[dict[str, Any]]
Wanted: TypeAlias = dict[str, list[Any]]
Look: TypeAlias = Callable[[Wanted, tuple[str, ...]], Rows]
"""Reads rows of tables: by kind, those in some blocks, or of some groups."""


def discrepancies(tallied: Rows, look: Look) -> list[dict[str, Any]]:
    """The findings that no task can see alone, from the tallies of all tasks."""
    found = [*_between(tallied, look, ("stored", "message"), ("told", "deliveries"), _of_messages)]
    found += _between(tallied, look, ("scheduled", "pending"), ("told pending", "deliveries"), _of_entries)
    found += _refused(tallied, look)
    found += _assigned(tallied, look)
    return found


def _between(
    tallied: Rows,
    look: Look,
    one: tuple[str, str],
    other: tuple[str, str],
    judge: Callable[[Rows, Rows], Iterable[dict[str, Any]]],
) -> Iterable[dict[str, Any]]:
    """The findings in blocks of two kinds whose prints differ."""
    blocks = differing(prints(tallied, one[0]), prints(tallied, other[0]))
    if not blocks:
        return []
    rows = look({kind: blocks for kind, _ in (one, other)}, (one[1], other[1]))
    return judge(*([row for row in rows if row["kind"] == kind] for kind, _ in (one, other)))


def differing(one: Counter[int], other: Counter[int]) -> list[int]:
    """The blocks whose prints differ."""
    return sorted(block for block in one.keys() | other.keys() if one[block] != other[block])


def prints(tallied: Rows, kind: str) -> Counter[int]:
    """Count and sum of each block as one number; 0 is a block without rows."""
    found: Counter[int] = Counter()
    sums: dict[int, tuple[int, int]] = {}
    for row in tallied:
        if row["kind"] == kind and row["words"] == "print":
            count, total = sums.get(row["sequence"], (0, 0))
            sums[row["sequence"]] = count + row["count"], (total + row["value"]) % (1 << 64)
    for block, (count, total) in sums.items():
        found[block] = (count << 64) + total
    return found


def _of_messages(stored: Rows, tallied: Rows) -> Iterable[dict[str, Any]]:
    """Messages of the log without a row in the table of deliveries."""
    known = {row["sequence"] for row in tallied}
    for row in stored:
        if row["sequence"] not in known:
            yield _finding("lost", row, "stored, and nothing says what became of it")


def _of_entries(scheduled: Rows, tallied: Rows) -> Iterable[dict[str, Any]]:
    """Pending entries: each must be in the schedule once, with its due time."""
    expected = {row["sequence"]: row for row in tallied}
    seen: set[int] = set()
    for row in scheduled:
        sequence, due_us = row["sequence"], row["value"]
        if sequence in seen:
            yield _finding("doubled", row, "twice in the schedule")
        elif sequence not in expected:
            yield _finding("doubled", row, "in the schedule, and not pending any more")
        elif due_us < expected[sequence]["value"]:
            yield _finding("early", row, "in the schedule before it is due")
        elif due_us > expected[sequence]["value"]:
            yield _finding("stuck", row, "in the schedule after it is due")
        seen.add(sequence)
    for sequence, row in expected.items():
        if sequence not in seen:
            yield _finding("lost", row, "pending, and in no schedule")


def _refused(tallied: Rows, look: Look) -> Iterable[dict[str, Any]]:
    """Messages of the log that are not in the state. Only messages with conditions may have been refused."""
    if not any(row["kind"] == "outcome" and row["words"] == "refused" for row in tallied):
        return
    blocks = sorted(prints(tallied, "told"))
    rows = look({"refused": blocks, "terms": blocks}, ("deliveries", "action"))
    terms = {row["sequence"]: max(row["count"] or 1, 1) for row in rows if row["kind"] == "terms"}
    begins = sorted(terms)
    for row in rows:
        if row["kind"] != "refused":
            continue
        place = bisect_left(begins, row["sequence"]) - 1
        if place < 0 or row["sequence"] > begins[place] + terms[begins[place]]:
            yield _finding("lost", row, "stored without terms, and nothing says what became of it")


def _assigned(tallied: Rows, look: Look) -> Iterable[dict[str, Any]]:
    """Messages that a group was assigned more often than possible: those it still had, or had acknowledged."""
    sums: dict[str, Counter[str]] = {"assigned": Counter(), "kept back": Counter(), "attempts": Counter()}
    for row in tallied:
        if row["kind"] in sums:
            sums[row["kind"]][row["words"]] += row["count"]
    handed_over = {name: count - sums["kept back"][name] for name, count in sums["assigned"].items()}
    groups = sorted(name for name, count in handed_over.items() if count > sums["attempts"][name])
    if not groups:
        return
    rows = look({"assigned": groups, "attempts": groups}, ("deliveries", "action"))
    given: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if row["kind"] == "assigned":
            given[row["words"], row["value"]] += row["count"]
    for row in rows:
        if row["kind"] == "attempts" and given[row["words"], row["value"]] > row["count"]:
            yield _finding("doubled", row, "given again to a group that had it")


def _finding(kind: str, row: dict[str, Any], words: str) -> dict[str, Any]:
    return {**row, "kind": kind, "words": words}
