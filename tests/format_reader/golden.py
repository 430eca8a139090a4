"""Golden files: hex with `# key: value` lines in front; `* n` repeats a line of zeros n times."""

from __future__ import annotations

from pathlib import Path

from format_reader.layout import FORMAT

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LINE_BYTES = 32


def read_golden(name: str) -> tuple[dict[str, str], bytes]:
    """The facts about a golden file and its bytes."""
    return parse((GOLDEN / f"{name}.hex").read_text("utf-8"))


def parse(text: str) -> tuple[dict[str, str], bytes]:
    facts: dict[str, str] = {}
    data = bytearray()
    for line in text.splitlines():
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            facts[key] = value
        elif line.startswith("* "):
            data += bytes(LINE_BYTES * int(line[2:]))
        else:
            data += bytes.fromhex(line)
    return facts, bytes(data)


def laid(folder: Path) -> Path:
    """The golden store of this format, as files."""
    text = (GOLDEN / "stores" / f"format_{FORMAT}.hex").read_text("utf-8")
    for one in text.split("# path: ")[1:]:
        name, _, lines = one.partition("\n")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parse(lines)[1])
    return folder
