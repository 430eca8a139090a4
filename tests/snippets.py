"""Runs the Python of a Markdown page.

The blocks of a page run in order, in one process and an empty folder, each seeing what came before. A
block that begins with a comment `# name.py` is that file instead; `# test_….py` is run by pytest after
the rest. What must not run stands under a line `<!-- not run: why -->`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n`]*$")
FILE = re.compile(r"# (?P<name>\w+\.py)\s*")
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
TIMEOUT_S = 100


@dataclass(frozen=True)
class Block:
    """The lines of one block, and the line of the page that the first of them is, from 1."""

    line: int
    lines: tuple[str, ...]

    @property
    def file_name(self) -> str | None:
        match = FILE.fullmatch(self.lines[0]) if self.lines else None
        return match["name"] if match else None


def python_blocks(page: str) -> list[Block]:
    """Every block of Python that is to be run."""
    blocks: list[Block] = []
    inside: re.Match[str] | None = None
    start, above = 0, ""
    lines = page.splitlines()
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if inside is None:
            if fence is None:
                above = line if line.strip() else above
            else:
                inside, start = fence, number + 1
        elif fence is not None and not fence["language"]:
            if inside["language"] == "python" and not NOT_RUN.fullmatch(above.strip()):
                indent = len(inside["indent"])
                blocks.append(Block(start + 1, tuple(text[indent:] for text in lines[start:number])))
            inside, above = None, ""
    return blocks


def script_of(blocks: list[Block]) -> str:
    """The blocks as one program whose line numbers are those of the page."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.lines
    return "\n".join(lines) + "\n"


def run_page(page: str, folder: Path, *, python: str = sys.executable) -> str | None:
    """Runs all Python of a page in an empty folder, by `python`; what went wrong, or None."""
    blocks = python_blocks(page)
    script = script_of([block for block in blocks if block.file_name is None])
    files = {block.file_name: script_of([block]) for block in blocks if block.file_name is not None}
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    if script.strip():
        (folder / "page.py").write_text(script, "utf-8")
        if (wrong := _run([python, "-W", "error", "page.py"], folder)) is not None:
            return wrong
    tests = sorted(name for name in files if name.startswith("test_"))
    if tests:
        (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
        return _run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], folder)
    return None


def _run(command: list[str], folder: Path) -> str | None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return None if ended.returncode == 0 else f"exit {ended.returncode}\n{ended.stdout}{ended.stderr}"
