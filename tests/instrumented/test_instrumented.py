"""What cannot be run is said to be not run, and what saw nothing has failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumented import __main__ as command
from instrumented import branches, sanitizers, toolchain
from instrumented.toolchain import BrokenError, NotHereError, Rustc
from power_cuts import equipment
from tidy.files import Source

NOWHERE = Rustc("1.0.0", "x86_64-unknown-linux-gnu", 990, Path("nowhere/toolchains/none"))


def test_an_instrument_that_is_not_here_is_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equipment, "install", lambda package: f"no {package}")
    assert command.run(["miri", "address", "thread", "branches"], NOWHERE) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1].strip() for line in said] == ["NOT RUN"] * 4
    assert "no cargo-miri in none" in said[0]
    assert "no rust-src in none" in said[2]
    assert "no llvm-profdata of LLVM 990 or newer" in said[3]


def test_what_is_broken_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Rustc) -> str:
        raise BrokenError("it saw nothing")

    monkeypatch.setitem(command.INSTRUMENTS, "miri", ("Miri", broken))
    assert command.run(["miri"], NOWHERE) == 1
    assert capsys.readouterr().out == "Miri: FAILED: it saw nothing\n"


def test_tests_that_fail_or_do_not_run_are_no_pass() -> None:
    one = "test result: ok. 3 passed; 0 failed; 0 ignored\n"
    assert toolchain.passed(0, one * 2, "") == 6
    for code, out in [(0, ""), (0, one.replace("3", "0")), (1, one), (0, one + one.replace("ok", "FAILED"))]:
        with pytest.raises(BrokenError):
            toolchain.passed(code, out, "")


def test_what_a_test_said_that_failed_is_told_however_many_passed_after_it() -> None:
    said = "---- it_holds stdout ----\n\nthread 'it_holds' panicked at a.rs:1:1:\nit does not\n\n"
    failed = f"failures:\n\n{said}failures:\n    it_holds\n\ntest result: FAILED. 0 passed; 1 failed\n"
    with pytest.raises(BrokenError, match="it does not"):
        toolchain.passed(101, failed + "test another ... ok\n" * 1_000 + "test result: ok. 1 passed; 0 failed\n", "")


def test_a_sanitizer_that_does_not_see_what_is_made_for_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizers, "OVERFLOW", "fn main() {}")
    compiler = toolchain.rustc()
    try:
        with pytest.raises(BrokenError, match="did not find"):
            sanitizers.finds_overflow(compiler)
    except NotHereError as reason:
        pytest.skip(str(reason))


def test_branches_of_tests_do_not_count() -> None:
    source = Source(
        "rust/core/src/a.rs", "fn a() {\n  // if b\n  if b {}\n}\n#[cfg(test)]\nmod tests {\n  if c {}\n}\n"
    )
    assert branches.code_lines(source) == {1, 3, 4}


def test_instances_of_one_function_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "FOLDER", tmp_path)
    lines = {"rust/core/src/a.rs": frozenset({3, 5})}
    rows = [
        [3, 6, 3, 7, 4, 0, 0, 0, 4],
        [3, 6, 3, 7, 0, 2, 0, 0, 4],
        [5, 1, 5, 2, 0, 9, 0, 0, 4],
        [7, 1, 7, 2, 1, 1, 0, 0, 4],
    ]
    export = {"data": [{"files": [{"filename": "/r/rust/core/src/a.rs", "branches": rows}]}]}
    counts = branches.taken(export, lines, Path("/r"))
    assert branches.per_cent(counts) == 75.0
    assert branches.table(counts) == ["rust/core/src/a.rs: 1 of 4 are not taken", "  5:1 yes"]
    with pytest.raises(BrokenError, match="90 % are asked for"):
        branches.told(counts, 1)
    with pytest.raises(BrokenError, match="no branch"):
        branches.told({}, 1)


def test_fewer_branches_than_are_asked_for_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "FOLDER", tmp_path)
    counts = {branches.Branch("a.rs", line, 1, way=True): int(line >= 10) for line in range(100)}
    assert branches.told(counts, 7) == "90.0 % of 100 branches of the core are taken by 7 tests and the simulation"
    counts |= {branches.Branch("b.rs", 1, 1, way=True): 0}
    with pytest.raises(BrokenError, match=r"89\.1 % of 101 .* 90 % are asked for; target/branches/untaken\.txt"):
        branches.told(counts, 7)
    assert "b.rs: 1 of 1 are not taken" in (tmp_path / "untaken.txt").read_text()
