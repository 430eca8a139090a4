"""Tables and bars, for people. Pipes get no escape codes, nor does a terminal with NO_COLOR."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import IO, Self, TextIO, TypeVar

Found = TypeVar("Found")

FIRST_AFTER_SECONDS = 0.5  # shorter work needs no bar
EVERY_SECONDS = 0.1
BAR_COLUMNS = 30
KIBI = 1024


def is_lively(stream: IO[str]) -> bool:
    """Returns True for a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: IO[str]) -> bool:
    """Returns True if colours may be used."""
    return is_lively(stream) and not os.environ.get("NO_COLOR")


def strong(text: str, stream: IO[str]) -> str:
    """Returns text that stands out, if colours may be used."""
    return f"\x1b[1m{text}\x1b[0m" if has_colour(stream) else text


def alarming(text: str, stream: IO[str]) -> str:
    """Returns text that warns, if colours may be used."""
    return f"\x1b[1;31m{text}\x1b[0m" if has_colour(stream) else text


def green(text: str, stream: IO[str]) -> str:
    """Returns green text, if colours may be used."""
    return f"\x1b[32m{text}\x1b[0m" if text and has_colour(stream) else text


def can_show(text: str, stream: TextIO) -> bool:
    """Returns True if the stream's encoding has every character of the text."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def clear(stream: IO[str]) -> str:
    """Returns what separates two outputs: a screen reset on a terminal, and an empty line elsewhere."""
    return "\x1b[H\x1b[J" if is_lively(stream) else "\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], stream: IO[str]) -> str:
    """Returns a plain table, with text to the left and numbers to the right. Numbers are given as int."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(heads))]
    widths = [max(len(line[column]) for line in [list(heads), *cells]) for column in range(len(heads))]

    def line(words: Sequence[str]) -> str:
        aligned = [
            word.rjust(width) if right else word.ljust(width)
            for word, width, right in zip(words, widths, numeric, strict=True)
        ]
        return "  ".join(aligned).rstrip()

    return "\n".join([strong(line(heads), stream), *(line(row) for row in cells)])


def print_list(
    found: Iterable[Found],
    said: Callable[[Found], Mapping[str, object]],
    heads: Sequence[str],
    row: Callable[[Found], Sequence[object]],
    *,
    as_json: bool,
    nothing: str | None = None,
) -> int:
    """Prints one JSON object on a line, or a table, or `nothing` if the table is empty. Returns the number of rows."""
    if as_json:
        number = 0
        for one in found:
            number += 1
            print(json.dumps(said(one), ensure_ascii=False))
        return number
    rows = [row(one) for one in found]
    print(nothing if nothing is not None and not rows else table(heads, rows, sys.stdout))
    return len(rows)


def count_words(count: int, noun: str, nouns: str | None = None) -> str:
    """Returns a count and its noun. The plural is the noun with an s unless it is given."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def message_words(count: int) -> str:
    """Returns a count of messages."""
    return count_words(count, "message")


def byte_words(count: int) -> str:
    """Returns bytes in readable units: 812 B, 4.2 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < KIBI or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= KIBI
    raise AssertionError(unit)


def span_words(span: timedelta) -> str:
    """Returns a duration in readable units: 3d 4h, 12m 5s, 0.4s."""
    seconds = span.total_seconds()
    if seconds < 10:  # noqa: PLR2004 - below that a second is coarse
        return f"{seconds:.1f}s"
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{int(number)}{unit}")
    return " ".join(parts[:2])


def cut(rows: list[tuple[object, ...]], most: int) -> tuple[list[tuple[object, ...]], list[str]]:
    """Returns the first rows of a table, and a line that counts the others."""
    left = len(rows) - most
    return rows[:most], [f"… and {left:,} more; --all shows them"] if left > 0 else []


class Bar:
    """A progress bar on one line, which disappears at the end. It prints nothing if the stream is not a terminal."""

    def __init__(self, what: str, stream: IO[str]) -> None:
        """Takes the words for the work, and the stream to draw on."""
        self._what = what
        self._stream = stream
        self._live = is_lively(stream)
        self._next = time.monotonic() + FIRST_AFTER_SECONDS
        self._drawn = 0

    def show(self, done: int, whole: int | None, words: str = "") -> None:
        """Draws how many bytes are done, and of how many if that is known, at most ten times a second."""
        now = time.monotonic()
        if not self._live or now < self._next:
            return
        self._next = now + EVERY_SECONDS
        self._draw(self.line(done, whole, words))

    def line(self, done: int, whole: int | None, words: str) -> str:
        """Returns the text of the bar."""
        if not whole:
            return f"{self._what}  {byte_words(done)}  {words}"
        share = min(done / whole, 1.0)
        full = int(share * BAR_COLUMNS)
        return f"{self._what}  [{'#' * full}{'.' * (BAR_COLUMNS - full)}] {share:4.0%}  {words}"

    def _draw(self, line: str) -> None:
        line = line[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + line.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
