"""What judges and what speaks from outside stay parts of their own: each is imported where nothing but the standard
library can be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ALONE = """
import importlib, sys

package = sys.argv[2]

class OnlyTheStandardLibrary:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names | {package}:
            raise ImportError(f"{name} is neither of the standard library nor of {package}")

sys.meta_path.insert(0, OnlyTheStandardLibrary())
sys.path.insert(0, sys.argv[1])
for module in sys.argv[3:]:
    importlib.import_module(f"{package}.{module}")
"""


@dataclass(frozen=True)
class Part:
    """A package that must need nothing else."""

    name: str
    has: frozenset[str]
    """Some of its modules, so that one that is found empty is noticed."""
    slips_into: str

    @property
    def modules(self) -> list[str]:
        names = (path.stem for path in (TESTS / self.name).glob("*.py"))
        return sorted(name for name in names if not name.startswith(("test_", "__init__")))

    def import_alone(self, tests: Path) -> subprocess.CompletedProcess[str]:
        """Without `site`, so that nothing that is installed is on the path."""
        command = [sys.executable, "-I", "-S", "-c", ALONE, str(tests), self.name, *self.modules]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


CHECKER = Part(
    "checker", frozenset({"__main__", "findings", "history", "ledger", "message", "verdict"}), slips_into="message"
)
CLIENT = Part(
    "qmq_client", frozenset({"bodies", "connection", "frame", "layout", "message", "pages"}), slips_into="layout"
)
PARTS = pytest.mark.parametrize("part", [CHECKER, CLIENT], ids=lambda part: part.name)


@PARTS
def test_it_needs_nothing_but_the_standard_library(part: Part) -> None:
    ended = part.import_alone(TESTS)
    assert ended.returncode == 0, ended.stderr
    assert part.has <= set(part.modules)


@PARTS
@pytest.mark.parametrize(
    "slip", ["import delaymq", "from delaymq import _core", "import serving", "import commanding", "import pytest"]
)
def test_whatever_else_it_imported_would_be_seen(part: Part, slip: str, tmp_path: Path) -> None:
    shutil.copytree(TESTS / part.name, tmp_path / part.name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / part.name / f"{part.slips_into}.py").open("a") as file:
        file.write(f"\n{slip}\n")
    ended = part.import_alone(tmp_path)
    assert ended.returncode == 1
    assert f"is neither of the standard library nor of {part.name}" in ended.stderr


@pytest.mark.parametrize("word", ["delaymq", "checkpoint", "segment"])
def test_the_checker_knows_nothing_of_what_it_judges(word: str) -> None:
    for module in CHECKER.modules:
        text = (TESTS / CHECKER.name / f"{module}.py").read_text(encoding="utf-8")
        assert word not in text, f"{module} speaks of {word}"
