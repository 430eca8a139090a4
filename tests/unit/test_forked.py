"""A command that is a fork is what a new process is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import commanding
import delaymq
from commanding import arguments_of, command, environment, template_of


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--store", "none"),
        ("status", "--nonsense"),
        ("--version",),
        ("publish", "--help"),
        ("config", "check"),
    ],
)
def test_it_ends_and_prints_as_a_new_process(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = environment(DELAYMQ_CONSUME__GROUP="billing")
    assert template_of(words, variables) is not None
    ended = command(*words, DELAYMQ_CONSUME__GROUP="billing")
    new = subprocess.run(arguments_of(*words), capture_output=True, text=True, check=False, env=variables)
    assert (ended.returncode, ended.stdout, ended.stderr) == (new.returncode, new.stdout, new.stderr)


def test_it_reads_what_it_is_given_and_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    place = ("--store", tmp_path / "store")
    assert command("publish", "a", "-", *place, given=b"given").returncode == 0
    assert command("publish", "a", "-", *place).returncode == 0
    consumed = command("consume", "a", "--group", "g", "--count", "2", "--timeout", "30s", *place)
    assert (consumed.returncode, consumed.stdout) == (0, "given\n\n")


def test_what_takes_too_long_is_killed(tmp_path: Path) -> None:
    place = ("--store", tmp_path / "store")
    delaymq.open(tmp_path / "store").close()
    with pytest.raises(subprocess.TimeoutExpired):
        command("consume", "a", "--group", "g", "--count", "1", "--timeout", "1h", *place, seconds=0.3)
    assert command("status", *place).returncode == 0, "nobody has the store any more"


def test_what_python_reads_at_its_start_needs_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert template_of(["status"], environment()) is not None
    assert template_of(["status"], environment(PYTHONIOENCODING="ascii")) is None
    assert template_of(["serve"], environment()) is None
    monkeypatch.setattr(commanding, "template", lambda *_: pytest.fail("it is not forked"))
    assert command("bench", "--nonsense").returncode == 2
