"""The table of `delaymq bench`, on streams of every kind."""

from __future__ import annotations

import io
import re

import pytest

from delaymq.bench import planned
from delaymq.bench.row import Case, Row, case_words
from delaymq.cli.output.figures import FigureTable

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Paper(io.TextIOWrapper):
    """A stream of an encoding, that is a terminal or is not."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


PIPED = Paper("utf-8", terminal=False)


def a_case(bench: str = "append", unit: str = "records/s", **detail: object) -> Case:
    return Case(bench, unit, "os", 10, lambda _: [], "pwrite", detail=detail)


def a_row(case: Case, value: float, limit: float, ratio: float) -> Row:
    return Row(case.bench, case.unit, value, limit, ratio, case.durability, case.n, case.detail)


NEAR = a_case(where="near", batch=1000, body_bytes=256)
COMMIT = a_case("commit", "acks/s", in_flight=1024)


def test_a_case_is_named_by_what_tells_it_from_the_others() -> None:
    assert case_words(NEAR.detail) == "near, batch 1,000"
    assert case_words(COMMIT.detail) == "in flight 1,024"
    assert case_words({"rate_per_s": 1000, "beside": "nothing"}) == "rate per s 1,000, beside nothing"
    every = [(case.bench, case_words(case.detail), case.durability) for case in planned([], quick=True)]
    assert len(set(every)) == len(every)
    assert all(words for _, words, _ in every)


def test_lines_printed_one_by_one_stand_below_one_another() -> None:
    shown = FigureTable([NEAR, COMMIT], PIPED, columns=120)
    head = shown.head()
    near = shown.line(a_row(NEAR, 2_580_000.0, 18_000_000.0, 0.5))
    commit = shown.line(a_row(COMMIT, 7200.0, 8400.5, 0.857))
    assert head.split() == [
        "bench",
        "case",
        "mode",
        "figure",
        "limit",
        "unit",
        "share",
        *["share", "of", "the", "limit"],
    ]
    assert near.split()[:7] == ["append", "near,", "batch", "1,000", "os", "2,580,000", "18,000,000"]
    assert "8,400  acks/s        86%" in commit
    for line in (near, commit):
        assert line[head.index("mode") :].startswith("os ")
        assert line[: head.index("unit")].rstrip().endswith(line.split()[line.split().index("os") + 2])
        assert line[: head.index("share") + len("share")].endswith("%")
        assert len(line) <= 120


@pytest.mark.parametrize(
    ("share", "bar"),
    [
        (0.0, "·" * 30),
        (0.5, "█" * 15 + "·" * 15),
        (0.51, "█" * 15 + "▎" + "·" * 14),
        (1.0, "█" * 30),
        (3.48, "█" * 30),
    ],
)
def test_a_bar_is_the_share_of_the_limit(share: float, bar: str) -> None:
    line = FigureTable([NEAR], PIPED, columns=140).line(a_row(NEAR, 1.0, 1.0, share))
    assert line.endswith(f"{share:.0%}  {bar}")


def test_a_share_of_nothing_has_no_number() -> None:
    line = FigureTable([NEAR], PIPED, columns=140).line(a_row(NEAR, 1.0, 0.0, float("inf")))
    assert line.endswith("     -  " + "█" * 30)


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp1252"])
def test_an_encoding_without_blocks_gets_plain_characters(encoding: str) -> None:
    paper = Paper(encoding, terminal=False)
    shown = FigureTable([NEAR], paper, columns=140)
    line = shown.line(a_row(NEAR, 1.0, 2.0, 0.5))
    assert line.endswith("#" * 15 + "." * 15)
    assert (shown.head() + line).isascii()


@pytest.mark.parametrize("columns", [62, 79, 80, 100, 110, 119, 120, 200])
def test_no_line_is_wider_than_it_may_be(columns: int) -> None:
    cases = planned([], quick=False)
    shown = FigureTable(cases, PIPED, columns=columns)
    lines = [shown.head(), *(shown.line(a_row(case, 99_999_999.0, 99_999_999.0, 1.0)) for case in cases)]
    widest = max(len(part) for line in lines for part in line.splitlines())
    assert widest <= columns
    assert all("99,999,999" in line and line.endswith("█") for line in lines[1:])
    assert {line.count("\n") for line in lines} == {1 if columns < 119 else 0}


def test_a_narrow_terminal_gets_the_figures_without_the_bar() -> None:
    lines = FigureTable([NEAR], PIPED, columns=50).line(a_row(NEAR, 99_999_999.0, 99_999_999.0, 1.0)).splitlines()
    assert lines == ["append  near, batch 1,000  os", "   99,999,999   99,999,999  records/s    100%"]


def test_colour_is_for_terminals_and_not_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Paper("utf-8", terminal=True)

    def printed(paper: Paper) -> str:
        shown = FigureTable([NEAR], paper, columns=140)
        return shown.head() + "\n" + shown.line(a_row(NEAR, 1.0, 2.0, 0.5))

    coloured = printed(terminal)
    assert "\x1b[32m" + "█" * 15 + "\x1b[0m" in coloured
    assert coloured.startswith("\x1b[1m")
    plain = printed(PIPED)
    assert "\x1b" not in plain
    assert ESCAPE.sub("", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(terminal) == plain
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert printed(terminal) == plain


def test_the_width_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    row = a_row(NEAR, 1.0, 2.0, 0.5)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert FigureTable([NEAR], PIPED).line(row) == FigureTable([NEAR], PIPED, columns=120).line(row)
    monkeypatch.setenv("COLUMNS", "60")
    assert FigureTable([NEAR], PIPED).line(row) == FigureTable([NEAR], PIPED, columns=60).line(row)
