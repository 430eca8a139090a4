"""The lines of a ledger: which kinds there are, what each must have, and reading them one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]

PUBLISHED_RESULTS = frozenset({"acknowledged", "refused", "ambiguous"})
KEYED_RESULTS = PUBLISHED_RESULTS | {"kept"}
CHANGED_RESULTS = frozenset({"done", "already_dispatched", "not_found", "refused", "ambiguous"})
STOP_CAUSES = frozenset({"kill", "cut", "stopped", "closed"})

REQUIRED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "run": {"harness": str, "seed": (int, str), "options": dict},
    "group": {"subject": str, "group": str},
    "publish": {"id": str, "subject": str, "digest": str},
    "published": {"id": str, "result": str},
    "series": {"id": str, "subject": str, "digest": str, "every_ms": int},
    "series_made": {"id": str, "result": str},
    "series_end": {"id": str, "next_ms": int},
    "series_ended": {"id": str, "result": str},
    "cancel": {"id": str},
    "cancelled": {"id": str, "result": str},
    "move": {"id": str},
    "moved": {"id": str, "result": str},
    "delivered": {"id": (str, type(None)), "subject": str, "digest": str, "group": str, "consumer": str},
    "acknowledge": {"id": str, "group": str},
    "acknowledged": {"id": str, "group": str, "result": str},
    "returned": {"id": str, "group": str, "delay_ms": int},
    "left": {"consumer": str},
    "dead": {"id": str, "group": str},
    "stop": {"cause": str, "in_flight_max": int},
    "start": {"epoch": int},
    "drained": {},
}
OPTIONAL: dict[str, dict[str, type | tuple[type, ...]]] = {
    "publish": {
        "due_ms": int,
        "delay_ms": int,
        "batch": str,
        "key": str,
        "if_exists": str,
        "deduplicate": bool,
    },
    "published": {"sequence": int},
    "series_made": {"next_ms": int},
    "move": {"due_ms": int, "delay_ms": int},
    "delivered": {
        "attempt": (int, type(None)),
        "redelivered": (bool, type(None)),
        "number": (int, type(None)),
        "epoch": int,
    },
    "returned": {"result": str},
}
CHOICES: dict[tuple[str, str], frozenset[str]] = {
    ("publish", "if_exists"): frozenset({"replace", "keep", "error"}),
    ("published", "result"): KEYED_RESULTS,
    ("series_made", "result"): PUBLISHED_RESULTS,
    ("series_ended", "result"): CHANGED_RESULTS,
    ("cancelled", "result"): CHANGED_RESULTS,
    ("moved", "result"): CHANGED_RESULTS,
    ("acknowledged", "result"): PUBLISHED_RESULTS,
    ("returned", "result"): PUBLISHED_RESULTS,
    ("stop", "cause"): STOP_CAUSES,
}

TIMED = frozenset({"publish", "move"})


class UnfitError(Exception):
    """The ledger cannot be judged; says where and why."""


def read(path: Path) -> Iterator[tuple[int, Line]]:
    """Each line with its number, from 1 on; its shape is checked, and what the first and the last are."""
    kind, number = "", 0
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
            except ValueError as error:
                raise UnfitError(f"line {number} is not JSON: {error}") from error
            if not isinstance(line, dict):
                raise UnfitError(f"line {number} is not an object")
            if kind == "drained":
                raise UnfitError(f"line {number} stands after the end of the run")
            kind = _shape(number, line)
            if (kind == "run") is not (number == 1):
                raise UnfitError(f"line {number}: the first line, and no other, is of kind run")
            yield number, line
    if kind != "drained":
        raise UnfitError(f"the last of {number} lines is not of kind drained: the run came to no end")


def _shape(number: int, line: Line) -> str:
    """The kind of a line that has all that its kind must have."""
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in REQUIRED:
        raise UnfitError(f"line {number} is of an unknown kind: {kind!r}")
    _typed(number, line, "at_ms", int)
    for name, wanted in REQUIRED[kind].items():
        _typed(number, line, name, wanted)
    for name, wanted in OPTIONAL.get(kind, {}).items():
        if name in line:
            _typed(number, line, name, wanted)
    for name in ("result", "cause", "if_exists"):
        choices = CHOICES.get((kind, name))
        if choices is not None and name in line and line[name] not in choices:
            raise UnfitError(f"line {number}: {name} is {line[name]!r}, none of {sorted(choices)}")
    if kind in TIMED and ("due_ms" in line) is ("delay_ms" in line):
        raise UnfitError(f"line {number}: a {kind} has either due_ms or delay_ms")
    return kind


def _typed(number: int, line: Line, name: str, wanted: type | tuple[type, ...]) -> None:
    value = line.get(name, _MISSING)
    wants_truth = wanted is bool or (isinstance(wanted, tuple) and bool in wanted)
    if not isinstance(value, wanted) or (isinstance(value, bool) and not wants_truth):
        raise UnfitError(f"line {number}: {name} is {value!r}")


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()
