"""The second reader stays a second one: it runs where nothing but the standard library can be imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from format_reader.golden import GOLDEN

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent
MODULES = sorted(
    path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith(("test_", "__")) and path.stem != "alone"
)


def run_alone(tests: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """Without `site`, so that neither what is installed nor what the environment says is on the path."""
    command = [sys.executable, "-I", "-S", str(FOLDER / "alone.py"), str(tests), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_reader_reads_every_golden_file_where_nothing_else_can_be_imported() -> None:
    ended = run_alone(TESTS)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    assert told == {"modules": MODULES, "golden": len(list(GOLDEN.glob("*.hex")))}
    assert {"batches", "checkpoints", "records", "runs", "segments", "store"} <= set(MODULES)


SLIPS = {
    "delaymq": "import delaymq",
    "delaymq._core": "from delaymq import _core",
    "a name put together": "import importlib\nimportlib.import_module('delay' + 'mq')",
    "the built-in": "__import__('delaymq.store')",
    "late, in a function": "def late():\n    import delaymq\n\n\nlate()",
    "through a neighbour": "import crafting",
    "somebody else's": "import pytest",
}


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_whatever_else_the_reader_imported_would_be_seen(slip: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "format_reader", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(GOLDEN, tmp_path / "golden")
    assert run_alone(tmp_path).returncode == 0
    with (tmp_path / "format_reader" / "records.py").open("a") as file:
        file.write(f"\n{slip}\n")
    ended = run_alone(tmp_path)
    assert ended.returncode == 1
    assert "is neither of the standard library nor of the reader" in ended.stderr
