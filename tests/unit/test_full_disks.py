"""Nobody passes over the tests of full disks where they can be run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import full_disks
from full_disks import MUST_RUN, cannot

CI = Path(__file__).resolve().parents[2] / ".ci" / "run"


@pytest.mark.parametrize(
    ("case", "fails"),
    [(("1", 0, True), True), (("1", 0, False), False), (("1", 1000, True), False), (("", 0, True), False)],
)
def test_a_skip_fails_where_ci_runs_as_a_root_who_may_mount(
    case: tuple[str, int, bool], fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, user, has_loops = case
    control = tmp_path / "loop-control"
    if has_loops:
        control.touch()
    monkeypatch.setattr(full_disks, "LOOP_CONTROL", control)
    monkeypatch.setenv(MUST_RUN, told)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="no mount here") as caught:
        cannot("no mount here")
    assert caught.type is (pytest.fail.Exception if fails else pytest.skip.Exception)


def test_the_script_of_ci_says_that_it_runs(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$* ${MUST_RUN}"\n')
    make.chmod(0o755)
    told = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run([CI], env=told, capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "ci 1\n"
