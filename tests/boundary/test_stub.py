"""The manual of the boundary says what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_stub_is_what_the_extension_is(tmp_path: Path) -> None:
    # The functions of verbs are called by their names, and need no stubs; mypy finds any other name that has none.
    command = [sys.executable, "-m", "mypy.stubtest", "delaymq._core", "--concise", "--ignore-missing-stub"]
    allowed = tmp_path / "allowed"
    names = ("Body", "Delivery", "Event", "Meta", "PendingAsked", "PendingPage", "ReadyTuple", "Row", "__all__")
    allowed.write_text("".join(f"delaymq._core.{name}\n" for name in names))
    ended = subprocess.run(
        [*command, "--allowlist", str(allowed), "--ignore-unused-allowlist"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
