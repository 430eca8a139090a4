"""The core's readers, asked through `delaymq-fuzz decode`; the corpus; and bytes that differ from it a little."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from format_reader.golden import LINE_BYTES, read_golden

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "rust" / "fuzz" / "corpus"
PROGRAM = Path(os.environ.get("DELAYMQ_FUZZ", ROOT / "target" / "fuzz" / "delaymq-fuzz"))
# Lengths and counts that readers are wrong about.
NUMBERS = [number.to_bytes(2) for number in (0, 1, 127, 128, 255, 32_767, 32_768, 65_535)]


class Core:
    """The program, which answers line by line."""

    def __init__(self) -> None:
        if not PROGRAM.exists():
            raise FileNotFoundError(f"{PROGRAM} is not there: `make test-python` builds it")
        self._process = subprocess.Popen(
            [str(PROGRAM), "decode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        assert self._process.wait(30) == 0
        if self._process.stdout is not None:
            self._process.stdout.close()

    def read(self, what: str, data: bytes, version: int = 9) -> Any:
        """What it reads: lists, numbers and texts in hex; None where it refuses the bytes, "more" where they end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what} {version} {data.hex() or ' '}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program ended over {what} {version} {data.hex()}"
        told = json.loads(line)
        assert not isinstance(told, dict), bytes.fromhex(told["error"]).decode()
        return told


def parse(text: str) -> bytes:
    """The bytes of a file of the corpus."""
    found = b""
    for line in text.splitlines():
        match line.split():
            case ["#", *_]:
                continue
            case ["*", count]:
                found += bytes(LINE_BYTES * int(count))
            case ["@", name, start]:
                found += read_golden(name)[1][int(start) :]
            case _:
                found += bytes.fromhex(line)
    return found


def corpus(target: str) -> list[bytes]:
    """The inputs of a target."""
    found = [parse(path.read_text("utf-8")) for path in sorted((CORPUS / target).glob("*.hex"))]
    assert found, target
    return found


def edited(whole: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Bytes with some places overwritten, taken out or put in."""
    data = bytearray(whole)
    for at, length, given in edits:
        start = at % (len(data) + 1)
        data[start : start + length] = given
    return bytes(data)


def changed(inputs: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of these, or what a few edits make of it."""
    piece = st.one_of(st.binary(max_size=6), st.sampled_from(NUMBERS))
    edit = st.tuples(st.integers(0, 4_095), st.integers(0, 8), piece)
    return st.builds(edited, st.sampled_from(inputs), st.lists(edit, max_size=4))
