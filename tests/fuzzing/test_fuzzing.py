"""What a machine cannot run is said to be not run, and what is found fails."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from differential.readers import CORPUS, PROGRAM
from fuzzing import __main__ as command
from fuzzing import guided
from fuzzing.guided import NotRunError

BROKEN = """#!/bin/sh
printf x >"${@: -2:1}"/../crash
echo "thread panicked at a place" >&2
echo "Test unit written to $(dirname "${@: -2:1}")/crash" >&2
echo "stat::number_of_executed_units: 5" >&2
exit 77
"""
SOUND = """#!/bin/sh
echo "Test unit written to /nowhere/slow-unit-1" >&2
echo "#2 INITED cov: 41 ft: 50" >&2
echo "stat::number_of_executed_units: 1234" >&2
"""


def program(path: Path, text: str) -> Path:
    path.write_text(text.replace("/bin/sh", "/bin/bash"))
    path.chmod(0o755)
    return path


def test_without_a_compiler_only_chance_looks_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guided, "COMPILERS", ("no-such-compiler",))
    chosen = ["--program", str(PROGRAM), "--minutes", "0.03", "--seed", "3", "--target", "own_hello"]
    assert command.main(chosen) == 0
    said = capfd.readouterr().out
    assert "libFuzzer: NOT RUN: libFuzzer needs a C++ compiler" in said
    assert "0 promises broken" in said


def test_a_finding_of_libfuzzer_is_read_and_a_failure_without_one_is_no_pass(tmp_path: Path) -> None:
    ended = guided.guided(program(tmp_path / "broken", BROKEN), "meta", CORPUS, tmp_path / "found", seconds=1, seed=1)
    assert ended.finding == tmp_path / "crash"
    ended = guided.guided(program(tmp_path / "sound", SOUND), "meta", CORPUS, tmp_path / "found", seconds=1, seed=1)
    assert (ended.executions, ended.covered, ended.finding) == (1234, 41, None)
    for text, said in (("exit 1", "ended with 1"), ("exit 0", "tried nothing")):
        nothing = program(tmp_path / "nothing", f"#!/bin/sh\n{text}\n")
        with pytest.raises(NotRunError, match=said):
            guided.guided(nothing, "meta", CORPUS, tmp_path / "found", seconds=1, seed=1)


def test_a_finding_fails_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "BUILT", tmp_path)
    monkeypatch.setattr(command, "built", lambda **_: program(tmp_path / "broken", BROKEN))
    chosen = ["--program", str(PROGRAM), "--minutes", "0.03", "--seed", "3", "--target", "own_hello"]
    assert command.main(chosen) == 1
    said = capfd.readouterr().out
    assert "own_hello: FOUND" in said
    assert "Refused" in said, "the input is shown as a file of the corpus"


def test_a_target_that_tries_nothing_hides_no_finding_and_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "BUILT", tmp_path)
    chosen = argparse.Namespace(program=PROGRAM, at_once=2)
    shell, rest = BROKEN.split("\n", 1)
    dumb = f'{shell}\n[ "$DELAYMQ_FUZZ_TARGET" = http ] && exit 1\n{rest}'
    fuzzer = program(tmp_path / "dumb", dumb)
    assert not command.by_coverage(fuzzer, chosen, ["http", "own_hello"], 1, 3)
    assert "own_hello: FOUND" in capfd.readouterr().out
    sound = rest.replace(
        "printf", 'if [ -z "$DELAYMQ_FUZZ_PLANTED" ]; then\n' + SOUND.split("\n", 1)[1] + "exit 0; fi\nprintf"
    )
    fuzzer = program(tmp_path / "half", f'{shell}\n[ "$DELAYMQ_FUZZ_TARGET" = http ] && exit 1\n{sound}')
    with pytest.raises(NotRunError, match="http: libFuzzer ended with 1"):
        command.by_coverage(fuzzer, chosen, ["http", "own_hello"], 1, 3)


def test_one_that_does_not_see_a_planted_fault_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "BUILT", tmp_path)
    monkeypatch.setattr(command, "built", lambda **_: program(tmp_path / "sound", SOUND))
    chosen = ["--program", str(PROGRAM), "--minutes", "0.03", "--seed", "3", "--target", "own_hello"]
    assert command.main(chosen) == 2
    said = capfd.readouterr().out
    assert "libFuzzer: BLIND: qmq_send with RefusedForNow planted: nothing found by 1,234 inputs" in said
    # It has the fault, and no inputs to begin with.
    telling = SOUND.replace("1234", 'none, "$DELAYMQ_FUZZ_PLANTED", $(ls -A "${@: -1}" | wc -l)')
    with pytest.raises(NotRunError, match="none, RefusedForNow, 0"):
        guided.prove(program(tmp_path / "telling", telling), tmp_path / "proof", seed=1)
