"""Tables, bars and sizes, on streams of every kind."""

from __future__ import annotations

import io

import pytest

from delaymq.cli.output import terminal
from delaymq.cli.output.terminal import Bar, byte_words, can_show, clear, count_words, message_words, strong, table


class Screen(io.StringIO):
    """A terminal that remembers what was written."""

    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        """What stands on the line now."""
        return self.getvalue().rsplit("\r", 1)[-1]


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    turned = Clock()
    monkeypatch.setattr(terminal, "time", turned)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return turned


def test_a_bar_is_drawn_where_something_takes_long_and_leaves_nothing(clock: Clock) -> None:
    screen = Screen()
    with Bar("recovering", screen) as bar:
        bar.show(10, 100, "1 fact")
        assert screen.getvalue() == ""
        clock.now = 0.5
        bar.show(50, 100, "5 facts")
        assert screen.line() == "recovering  [###############...............]  50%  5 facts"
        drawn = screen.getvalue()
        clock.now = 0.55
        bar.show(60, 100, "6 facts")
        assert screen.getvalue() == drawn, "ten times a second is enough"
        clock.now = 0.6
        bar.show(300, 100, "all")
        assert screen.line().rstrip() == "recovering  [##############################] 100%  all"
        clock.now = 0.7
        bar.show(5000, None, "of nobody knows how many")
        assert screen.line().rstrip() == "recovering  4.9 KiB  of nobody knows how many"
    cleared, last = screen.getvalue().rsplit("\r", 2)[-2:]
    assert last == ""
    assert set(cleared) == {" "}


def test_a_bar_is_not_wider_than_the_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = Screen()
    with Bar("recovering", screen) as bar:
        clock.now = 1
        bar.show(50, 100, "many words that nobody reads")
        assert len(screen.line()) == 29


def test_what_is_no_terminal_gets_no_bar(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    piped, dumb = io.StringIO(), Screen()
    with Bar("recovering", piped) as bar:
        clock.now = 9
        bar.show(50, 100)
    monkeypatch.setenv("TERM", "dumb")
    with Bar("recovering", dumb) as bar:
        clock.now = 19
        bar.show(50, 100)
    assert piped.getvalue() == dumb.getvalue() == ""
    assert (clear(piped), clear(dumb)) == ("\n", "\n")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (134217728, "128.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 40, "3.0 TiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_bytes_as_people_read_them(count: int, words: str) -> None:
    assert byte_words(count) == words


def test_one_of_anything_is_one() -> None:
    assert [count_words(count, "fact") for count in (0, 1, 2, 1_234)] == ["0 facts", "1 fact", "2 facts", "1,234 facts"]
    assert [count_words(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]


def test_one_message_is_one() -> None:
    assert [message_words(count) for count in (0, 1, 2, 1_234)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "1,234 messages",
    ]


def test_a_table_has_text_to_the_left_and_numbers_to_the_right() -> None:
    shown = table(("name", "count"), [("a", 1_000_000), ("longer", 2)], io.StringIO())
    assert shown.splitlines() == ["name        count", "a       1,000,000", "longer          2"]
    assert table(("name", "count"), [], io.StringIO()) == "name  count"


def test_what_stands_out_does_so_on_terminals_alone(clock: Clock) -> None:
    assert clock.now == 0
    assert strong("x", Screen()) == "\x1b[1mx\x1b[0m"
    assert strong("x", io.StringIO()) == "x"
    assert clear(Screen()) == "\x1b[H\x1b[J"


def test_what_an_encoding_can_show() -> None:
    def paper(encoding: str) -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BytesIO(), encoding=encoding)

    assert can_show("█", paper("utf-8"))
    assert not can_show("█", paper("ascii"))
    assert not can_show("█", io.StringIO())  # which has none
