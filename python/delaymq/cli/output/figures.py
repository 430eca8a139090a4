"""The figures of `delaymq bench` as a table that grows row by row, each next to the machine's limit, with a bar."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from typing import TextIO

from delaymq.bench.marks import Judged
from delaymq.bench.row import Case, Row, case_words
from delaymq.cli.output.terminal import alarming, can_show, green, strong

COLUMNS_PIPED = 120  # without a terminal
BAR_COLUMNS_MAX = 30
BAR_COLUMNS_MIN = 6  # a shorter bar shows nothing
FIGURE_COLUMNS = 11  # 999,999,999
SHARE_COLUMNS = 6  # 9,999%
GAP = "  "
BLOCKS = "▏▎▍▌▋▊▉█"
"""The eighths of one column, the smallest first."""


class FigureTable:
    """Lines that are aligned although they are printed one by one.

    All cases are known before the first is measured, so the widths of the text columns are known.
    A row that does not fit on one line takes two.
    """

    def __init__(self, cases: Sequence[Case], stream: TextIO, columns: int | None = None) -> None:
        """Computes the layout from the cases and the stream.

        Args:
            cases: The cases that will be measured.
            stream: The stream that the lines go to.
            columns: The width; None takes that of the terminal.
        """
        self._stream = stream
        self._named = max(len("bench"), *(len(case.bench) for case in cases))
        self._cased = max(len("case"), *(len(case_words(case.detail)) for case in cases))
        self._units = max(len("unit"), *(len(case.unit) for case in cases))
        self._has_blocks = can_show(BLOCKS + "·", stream)
        whole = _columns(stream) if columns is None else columns
        left = whole - len(GAP) - len(self._numbers("", "", "", "")) - len(GAP)
        beside_words = left - len(self._words("", "", ""))
        self._is_on_two = beside_words < BAR_COLUMNS_MIN
        bar = min(left if self._is_on_two else beside_words, BAR_COLUMNS_MAX)
        self._bar = bar if bar >= BAR_COLUMNS_MIN else 0

    def head(self) -> str:
        """Returns the heading of the columns."""
        words = self._words("bench", "case", "mode")
        bar = GAP + "share of the limit"[: self._bar] if self._bar else ""
        return strong(self._joined(words, self._numbers("figure", "limit", "unit", "share") + bar), self._stream)

    def line(self, row: Row) -> str:
        """Returns one row."""
        words = self._words(row.bench, case_words(row.detail), row.durability)
        share = f"{row.ratio:,.0%}" if math.isfinite(row.ratio) else "-"
        numbers = self._numbers(_grouped(row.value), _grouped(row.limit), row.unit, share)
        return self._joined(words, numbers + (GAP + self._drawn(row.ratio) if self._bar else ""))

    def marks(self, row: Row) -> list[str]:
        """Yields a line for each mark of a row: the figure that must be reached, and whether it was."""
        return [f"{GAP}must: {judged.words()}: {self._outcome(judged)}" for judged in row.must]

    def _outcome(self, judged: Judged) -> str:
        if judged.is_met:
            return "met"
        return alarming(f"missed, {_grouped(judged.found)}", self._stream)

    def _words(self, bench: str, case: str, durability: str) -> str:
        return GAP.join((bench.ljust(self._named), case.ljust(self._cased), durability.ljust(len("disk"))))

    def _numbers(self, figure: str, limit: str, unit: str, share: str) -> str:
        numbers = (figure.rjust(FIGURE_COLUMNS), limit.rjust(FIGURE_COLUMNS))
        return GAP.join((*numbers, unit.ljust(self._units), share.rjust(SHARE_COLUMNS)))

    def _joined(self, words: str, numbers: str) -> str:
        between = f"\n{GAP}" if self._is_on_two else GAP
        return f"{words.rstrip() if self._is_on_two else words}{between}{numbers}".rstrip()

    def _drawn(self, share: float) -> str:
        """Returns a bar that is full if the limit was reached."""
        reached = min(max(share, 0.0), 1.0)
        if self._has_blocks:
            whole, eighths = divmod(int(reached * self._bar * len(BLOCKS)), len(BLOCKS))
            full = BLOCKS[-1] * whole + (BLOCKS[eighths - 1] if eighths else "")
            return green(full, self._stream) + "·" * (self._bar - len(full))
        full = "#" * int(reached * self._bar)
        return green(full, self._stream) + "." * (self._bar - len(full))


def _columns(stream: TextIO) -> int:
    """Returns the width of the output: COLUMNS if it is set, and otherwise the width of the terminal."""
    if os.environ.get("COLUMNS", "").isdecimal() or stream.isatty():
        return shutil.get_terminal_size((COLUMNS_PIPED, 24)).columns
    return COLUMNS_PIPED


def _grouped(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004 - four digits either way
