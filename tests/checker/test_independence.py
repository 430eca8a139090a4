"""The checker stays one of its own: it runs where nothing but the standard library can be imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith(("test_", "__init__")))
ALONE = """
import importlib, sys

class OnlyTheStandardLibrary:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names | {"checker"}:
            raise ImportError(f"{name} is neither of the standard library nor of the checker")

sys.meta_path.insert(0, OnlyTheStandardLibrary())
sys.path.insert(0, sys.argv[1])
for module in sys.argv[2:]:
    importlib.import_module(f"checker.{module}")
"""


def import_alone(tests: Path) -> subprocess.CompletedProcess[str]:
    """Without `site`, so that nothing that is installed is on the path."""
    command = [sys.executable, "-I", "-S", "-c", ALONE, str(tests), *MODULES]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_checker_needs_nothing_but_the_standard_library() -> None:
    ended = import_alone(FOLDER.parent)
    assert ended.returncode == 0, ended.stderr
    assert {"__main__", "findings", "history", "ledger", "message", "verdict"} <= set(MODULES)


@pytest.mark.parametrize("slip", ["import delaymq", "import serving", "import pytest"])
def test_whatever_else_the_checker_imported_would_be_seen(slip: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "checker", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "checker" / "message.py").open("a") as file:
        file.write(f"\n{slip}\n")
    ended = import_alone(tmp_path)
    assert ended.returncode == 1
    assert "is neither of the standard library nor of the checker" in ended.stderr


@pytest.mark.parametrize("word", ["delaymq", "checkpoint", "segment"])
def test_the_checker_knows_nothing_of_what_it_judges(word: str) -> None:
    for module in MODULES:
        text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
        assert word not in text, f"{module} speaks of {word}"
