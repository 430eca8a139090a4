"""The lines that the README shows run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_first_lines_of_the_readme_run(tmp_path: Path) -> None:
    lines = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert lines is not None
    ended = subprocess.run(
        [sys.executable, "-c", lines[1]], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["Outcome.DONE", "b'43'"]
