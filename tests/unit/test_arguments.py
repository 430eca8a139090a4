from __future__ import annotations

import argparse
from datetime import timedelta

import pytest

from delaymq import __version__
from delaymq.cli import main
from delaymq.cli.arguments import count, duration


def test_durations_have_units() -> None:
    assert duration("250ms") == timedelta(milliseconds=250)
    assert duration("1.5s") == timedelta(seconds=1.5)
    assert duration("30m") == timedelta(minutes=30)
    assert duration("7d") == timedelta(days=7)


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "0s", "10y", "nans", "infs", "1 s"])
def test_a_duration_without_sense_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(text)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5"])
def test_a_count_without_sense_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        count(text)


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["demo", "--messages", "5"], ["bench", "nothing"]])
def test_a_wrong_command_line_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: delaymq" in capsys.readouterr().err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"delaymq {__version__}\n"
