"""The rule for planted faults: docs/guarantees.md has a row for each, and what finds it is there and runs in CI.

The table that follows a line `<!-- faults -->` lists `fault`, what a user would see, and what finds it: a Rust test as
`FILE::NAME`, which names the fault, or a harness as its file and `make TARGET`, which `make ci` runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidy.documents import Row, table_after
from tidy.files import Finding, Source
from tidy.rust import closing_brace, without_words

if TYPE_CHECKING:
    from collections.abc import Mapping

FAULTS_MARK = "<!-- faults -->"
ENUM = "rust/core/src/planted.rs"
RUST_TEST = re.compile(r"`([\w./]+\.rs)::(\w+)`")
HARNESS = re.compile(r"`([\w./]+\.py)`")
TARGET = re.compile(r"`make ([\w-]+)`")


def names_of(enum: str) -> list[str]:
    """The faults that the enum has."""
    body = re.search(r"^faults! \{\n(.*?)^\}", enum, re.DOTALL | re.MULTILINE)
    return re.findall(r"^    (\w+),$", body.group(1) if body else "", re.MULTILINE)


def targets_of_ci(makefile: str) -> frozenset[str]:
    """What `make ci` makes, part by part: its own, and those of the lanes that it runs next to each other."""
    whole = _recipe("ci", makefile)
    for lanes in re.findall(r"\blanes ([\w -]+)", whole):
        whole += "".join(_recipe(lane, makefile) for lane in lanes.split())
    return frozenset(re.findall(r"(?:\$\(MAKE\) --no-print-directory|\blogged [\w-]+) ([\w-]+)", whole))


def _recipe(target: str, makefile: str) -> str:
    found = re.search(rf"^{target}:.*?(?=^\S)", makefile, re.DOTALL | re.MULTILINE)
    return found.group() if found else ""


def against_the_table(document: Source, texts: Mapping[str, str], product: Mapping[str, str]) -> list[Finding]:
    """Faults without a row, rows without a fault, faults that no code asks for, and finders that find nothing."""
    names = names_of(texts.get(ENUM, ""))
    marks = [at for at, line in enumerate(document.lines) if line.strip() == FAULTS_MARK]
    if not names or not marks:
        return [Finding(document.path, 1, f"no table after {FAULTS_MARK}, or no faults in {ENUM}")]
    rows = [row for mark in marks for row in table_after(document.lines, mark)]
    told = [row.cells[0].strip("`") for row in rows]
    first = marks[0] + 1
    findings = [Finding(document.path, first, f"{name} has no row") for name in names if name not in told]
    findings += [Finding(ENUM, 1, f"no code asks for {name}") for name in names if not _is_asked_for(name, product)]
    for row, name in zip(rows, told, strict=True):
        if name not in names or told.count(name) > 1:
            findings.append(Finding(document.path, row.line, f"{name} is no fault, or has two rows"))
        else:
            findings += [Finding(document.path, row.line, what) for what in _unfound(row, name, texts)]
    return findings


def _is_asked_for(name: str, product: Mapping[str, str]) -> bool:
    asked = re.compile(rf"\bis_on\(\s*Planted::{name}\s*\)")
    return any(asked.search(text) for text in product.values())


def _unfound(row: Row, name: str, texts: Mapping[str, str]) -> list[str]:
    """What is wrong with a row."""
    if len(row.cells) != 3 or not row.cells[1]:
        return [f"{name}: nothing is said of what a user would see"]
    finders = row.cells[2]
    findings = [
        f"{path}::{test} is no test that names {name}"
        for path, test in RUST_TEST.findall(finders)
        if not re.search(rf"\bPlanted::{name}\b", _test_of(texts.get(path, ""), test))
    ]
    harnesses, targets = HARNESS.findall(finders), TARGET.findall(finders)
    findings += [f"{path} does not name {name}" for path in harnesses if f'"{name}"' not in texts.get(path, "")]
    ci = targets_of_ci(texts.get("Makefile", ""))
    findings += [f"make ci does not make {target}" for target in targets if target not in ci]
    if len(harnesses) != len(targets):
        findings.append(f"{name}: each harness stands with the target that runs it")
    if not harnesses and not RUST_TEST.search(finders):
        findings.append(f"nothing finds {name}")
    return findings


def _test_of(text: str, name: str) -> str:
    """The body of a Rust test of this name; empty where there is none, or it is not run."""
    match = re.search(rf"^#\[test\]\nfn {name}\(\) \{{", text, re.MULTILINE)
    return text[match.start() : closing_brace(without_words(text), match.end() - 1)] if match else ""
