"""Runs the Python and the shell commands of a Markdown page.

In an empty folder, in this order:

1. The blocks of Python, in one process, each seeing what came before. One that begins with a comment
   `# name.py` is that file instead; so is one of TOML that begins with `# name.toml`.
2. The files `test_….py`, by pytest.
3. The shell commands, in one shell: those of `console` blocks, which stand behind `$ ` (and go on behind
   `> `) with what they print below them, and each `sh` block as it is. Where output is shown it must be
   what comes; `…` in it stands for anything, and a line of its own for any lines. Each must succeed,
   but for one whose code the next command shows: `echo $?`.

What must not run stands under a line `<!-- not run: why -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n`]*$")
FILE = re.compile(r"# (?P<name>\w+\.(?:py|toml))\s*")
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
LANGUAGES = frozenset({"python", "toml", "console", "sh", "text", ""})
"""What a block may be; one without a language, or of text, is a picture."""
RUN = LANGUAGES - {"text", ""}
TIMEOUT_S = 600
"""Ends what hangs: a page that shows Spark took over 100 s on two processors with a load of fifteen."""
END = re.compile("\x1e([0-9]+)\x1e\n")
SHOW_CODE = "echo $?"


@dataclass(frozen=True)
class Block:
    """The lines of one block, and the line of the page that the first of them is, from 1."""

    line: int
    lines: tuple[str, ...]
    language: str = "python"

    @property
    def file_name(self) -> str | None:
        match = FILE.fullmatch(self.lines[0]) if self.lines else None
        return match["name"] if match else None


@dataclass(frozen=True)
class Command:
    """One shell command, the line of the page that it begins on, and what is said to come of it."""

    line: int
    text: str
    output: tuple[str, ...]


def blocks_of(page: str) -> list[Block]:
    """Every block but those that are not to be run."""
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
            if not NOT_RUN.fullmatch(above.strip()):
                indent = len(inside["indent"])
                body = tuple(text[indent:] for text in lines[start:number])
                blocks.append(Block(start + 1, body, inside["language"]))
            inside, above = None, ""
    return blocks


def python_blocks(page: str) -> list[Block]:
    """Every block of Python that is to be run."""
    return [block for block in blocks_of(page) if block.language == "python"]


def commands_of(page: str) -> list[Command]:
    """Every shell command that is to be run."""
    commands = []
    for block in blocks_of(page):
        if block.language == "sh":
            commands.append(Command(block.line, "\n".join(block.lines), ()))
        elif block.language == "console":
            commands += _prompted(block)
    return commands


def _prompted(block: Block) -> list[Command]:
    starts = [number for number, line in enumerate(block.lines) if line.startswith("$ ")]
    if starts[:1] != [0]:
        raise ValueError(f"line {block.line}: a console block begins with a command behind `$ `")
    commands = []
    for start, end in pairwise([*starts, len(block.lines)]):
        after = start + 1
        while after < end and block.lines[after].startswith("> "):
            after += 1
        text = "\n".join(line[2:] for line in block.lines[start:after])
        commands.append(Command(block.line + start, text, block.lines[after:end]))
    return commands


def is_run(page: str) -> bool:
    """True where there is anything to run."""
    return any(block.language in RUN for block in blocks_of(page))


def script_of(blocks: list[Block]) -> str:
    """The blocks as one program whose line numbers are those of the page."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.lines
    return "\n".join(lines) + "\n"


def run_page(page: str, folder: Path, *, python: str = sys.executable) -> str | None:
    """Runs all that a page shows in an empty folder, by `python`; what went wrong, or None."""
    blocks = [block for block in blocks_of(page) if block.language in ("python", "toml")]
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
        if (wrong := _run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], folder)) is not None:
            return wrong
    return _run_commands(commands_of(page), folder, python)


def _run(command: list[str], folder: Path) -> str | None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return None if ended.returncode == 0 else f"exit {ended.returncode}\n{ended.stdout}{ended.stderr}"


def _run_commands(commands: list[Command], folder: Path, python: str) -> str | None:
    """Runs them in one shell, in which `python` and what is installed beside it come first."""
    if not commands:
        return None
    told = '; snippet_code=$?; printf \'\\036%d\\036\\n\' "$snippet_code"; (exit "$snippet_code")'
    script = "\n".join(f"{{ {command.text}\n}}{told}" for command in commands)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DELAYMQ_")}
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=folder,
        env={**kept, "PATH": path, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    pieces = END.split(ended.stdout)
    outputs, codes = pieces[:-1:2], [int(code) for code in pieces[1::2]]
    if len(codes) != len(commands):
        return f"line {commands[len(codes)].line}: the shell ended: {pieces[-1]}"
    shown = {number for number, next_one in enumerate(commands[1:]) if next_one.text == SHOW_CODE}
    for number, command in enumerate(commands):
        place = f"line {command.line}: $ {command.text}"
        if codes[number] and number not in shown:
            return f"{place}\nexit {codes[number]}\n{outputs[number]}"
        if command.output and not matches(command.output, outputs[number]):
            return f"{place}\nis said to print:\n" + "\n".join(command.output) + f"\nand printed:\n{outputs[number]}"
    return None


def matches(said: tuple[str, ...], printed: str) -> bool:
    """True where what was printed is what the page says, but for `…` and spaces at the ends of lines."""
    pattern = "".join(
        "(?:.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, line.rstrip().split("…"))) + " *\n"
        for line in said
    )
    return re.fullmatch(pattern, printed if printed.endswith("\n") else f"{printed}\n") is not None
