from __future__ import annotations

import argparse
from datetime import timedelta

import pytest

from delaymq import __version__
from delaymq.cli import main
from delaymq.cli.input.arguments import count, delay, duration, moment


def test_durations_have_units() -> None:
    assert duration("250ms") == timedelta(milliseconds=250)
    assert duration("1.5s") == timedelta(seconds=1.5)
    assert duration("30m") == timedelta(minutes=30)
    assert duration("7d") == timedelta(days=7)
    assert duration("1h30m") == timedelta(minutes=90)
    assert duration("1d2h3m4s5ms") == timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)
    assert delay("0s") == timedelta(0)


@pytest.mark.parametrize(
    "text", ["", "10", "s", "-1s", "0s", "10y", "nans", "infs", "1 s", "1m1h", "1s1s", "1h 30m", "1h30"]
)
def test_a_duration_without_sense_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(text)


@pytest.mark.parametrize("text", ["30", "1.5", "0"])
def test_a_number_without_unit_is_told_so(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"{text} has no unit: write {text}s"):
        delay(text)


def test_a_duration_beyond_all_measure_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="longer than"):
        delay("9" * 30 + "d")


def test_a_time_needs_its_zone() -> None:
    assert moment("2030-12-31T18:00:00Z").isoformat() == "2030-12-31T18:00:00+00:00"
    assert moment("2030-12-31T18:00:00+02:00").utcoffset() == timedelta(hours=2)
    with pytest.raises(argparse.ArgumentTypeError, match="no time zone"):
        moment("2030-12-31T18:00:00")
    with pytest.raises(argparse.ArgumentTypeError, match="expected a time such as"):
        moment("tomorrow")


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5"])
def test_a_count_without_sense_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        count(text)


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["demo", "--messages", "5"], ["bench", "nothing"]])
def test_a_wrong_command_line_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("delaymq: ")
    assert "--help`" in line


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"delaymq {__version__}\n"
