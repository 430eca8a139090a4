"""The second reader stays a second one: nothing of it comes from delaymq."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MODULES = sorted(path.name for path in FOLDER.glob("*.py") if not path.name.startswith("test_"))


def imported(text: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_reader_does_not_import_delaymq(module: str) -> None:
    assert "delaymq" not in imported((FOLDER / module).read_text("utf-8"))


def test_an_import_of_delaymq_would_be_seen() -> None:
    assert "delaymq" in imported("def late():\n    from delaymq.store import Store\n")
    assert "delaymq" in imported("import delaymq._core as core\n")
