"""The files of the project, as the rules read them, and the shape of a finding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PASSED_OVER = frozenset(
    {
        ".git",
        ".venv",
        "target",
        "dist",
        "build",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        "node_modules",
    }
)
TEXT_SUFFIXES = frozenset(
    {
        ".rs",
        ".py",
        ".pyi",
        ".md",
        ".rst",
        ".toml",
        ".yml",
        ".yaml",
        ".txt",
        ".in",
        ".hex",
        ".lock",
        ".sh",
        ".cfg",
        ".json",
    }
)
TEXT_NAMES = frozenset({"Makefile", "LICENSE", "run", ".gitignore"})


@dataclass(frozen=True)
class Source:
    """One file: its path from the root, with `/`, and its text."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def is_test(self) -> bool:
        parts = self.path.split("/")
        return "tests" in parts[:-1] or self.name in {"tests.rs", "conftest.py"} or self.name.endswith("_tests.rs")


@dataclass(frozen=True)
class Finding:
    """A rule that a file breaks, where, and what to do."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def project_files(root: Path = ROOT) -> list[Source]:
    """Every text file of the project, sorted by path."""
    return [Source(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in sorted(_walk(root))]


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in PASSED_OVER or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _walk(entry)
        elif entry.suffix in TEXT_SUFFIXES or entry.name in TEXT_NAMES:
            yield entry


def report(findings: list[Finding]) -> str:
    """The findings as a test's message."""
    return "\n" + "\n".join(str(finding) for finding in findings)
