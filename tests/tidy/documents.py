"""Rules for documents: titles, the glossary's files, and docs/format.md against the Rust constants.

A table of docs/format.md that follows a line `<!-- struct: FILE NAME -->` lists `offset`, `bytes`
and `field` of that `#[repr(C)]` struct; one that follows `<!-- constants -->` lists `constant`,
`value` and `file`. The table after `<!-- kinds -->` lists `kind`, `fact` and `file`, and each kind
that has a file is the constant `KIND_…` of the fact's name there.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from tidy.files import Finding, Source

STRUCT_MARK = re.compile(r"<!-- struct: (\S+) (\w+) -->")
STEM_LETTERS_MIN = 3
CONSTANTS_MARK = "<!-- constants -->"
KINDS_MARK = "<!-- kinds -->"
KIND = re.compile(r"\bconst (KIND_\w+): u8 = ")
FIELD_BYTES = {"u8": 1, "U16": 2, "U32": 4, "U64": 8, "u16": 2, "u32": 4, "u64": 8}


@dataclass(frozen=True)
class Row:
    line: int
    cells: tuple[str, ...]


def untitled(source: Source) -> list[Finding]:
    if source.suffix != ".md":
        return []
    first = next((line for line in source.lines if line.strip()), "")
    return [] if re.match(r"# \S", first) else [Finding(source.path, 1, "a document begins with its title")]


def table_after(lines: list[str], start: int) -> list[Row]:
    """The body rows of the first table at or below line index `start`."""
    index = start
    while index < len(lines) and not lines[index].startswith("|"):
        index += 1
    rows = []
    while index < len(lines) and lines[index].startswith("|"):
        cells = tuple(cell.strip() for cell in lines[index].strip().strip("|").split("|"))
        rows.append(Row(index + 1, cells))
        index += 1
    return rows[2:]


def glossary_files(source: Source, existing: frozenset[str]) -> list[Finding]:
    """Names of files in the glossary that are no file or folder of the project."""
    findings = []
    rows = table_after(source.lines, 0)
    if not rows:
        findings.append(Finding(source.path, 1, "the glossary has no table"))
    for row in rows:
        names = re.findall(r"`([\w./-]*/[\w./-]*)`", " ".join(row.cells[1:]))
        missing = [name for name in names if name.rstrip("/") not in existing]
        findings.extend(Finding(source.path, row.line, f"{name} does not exist") for name in missing)
    return findings


def glossary_stems(source: Source) -> list[Finding]:
    """Files and folders in the glossary that have no word in common with the stage of their row."""
    findings = []
    for row in table_after(source.lines, 0):
        stage = re.findall(r"[a-z]+", row.cells[0].lower())
        for path in re.findall(r"`([^`]+)`", " ".join(row.cells[1:])):
            named = re.findall(r"[a-z]+", own_name(path))
            if not any(same_stem(word, other) for word in stage for other in named):
                findings.append(Finding(source.path, row.line, f"{path} is not called as its stage, {row.cells[0]}"))
    return findings


def own_name(path: str) -> str:
    """The last name of a path without its suffix; that of its folder where the file is `mod` or `tests`."""
    parts = path.rstrip("/").split("/")
    last = parts[-1].partition(".")[0]
    return parts[-2] if last in {"mod", "tests"} else last


def same_stem(one: str, other: str) -> bool:
    """True where one is the other with an ending more, or both differ in an ending after the shorter's last letter."""
    same = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), None)
    shorter = min(len(one), len(other))
    return (shorter if same is None else same) >= max(STEM_LETTERS_MIN, shorter - 1)


def struct_layout(text: str, name: str) -> list[tuple[int, int, str]] | None:
    """Offset, bytes and name of each field of a `#[repr(C)]` struct whose fields have no padding."""
    match = re.search(rf"\bstruct {name} \{{(.*?)\n\}}", text, re.DOTALL)
    if match is None:
        return None
    layout = []
    offset = 0
    for field, kind in re.findall(r"^\s*(?:pub(?:\([a-z]+\))? )?(\w+): ([^,\n]+),", match.group(1), re.MULTILINE):
        array = re.match(r"\[(\w+); (\w+)\]", kind)
        size = FIELD_BYTES[array.group(1)] * int(array.group(2)) if array else FIELD_BYTES[kind]
        layout.append((offset, size, field))
        offset += size
    return layout


def constant_value(text: str, name: str) -> int | str | None:
    """The value of a Rust constant or of a variant (`Kind::This`): a number, or the text of a byte string."""
    enum, _, variant = name.rpartition("::")
    if enum:
        body = re.search(rf"\benum {enum} \{{(.*?)\n\}}", text, re.DOTALL)
        number = re.search(rf"^\s*{variant} = (\d+),", body.group(1) if body else "", re.MULTILINE)
        return None if number is None else int(number.group(1))
    match = re.search(rf"\bconst {name}: [^=]+= ([^;]+);", text)
    return None if match is None else _value(match.group(1).strip(), text)


def _value(expression: str, text: str) -> int | str | None:
    if literal := re.fullmatch(r'(?:\*?b)?"([^"]*)"', expression):
        return literal.group(1)
    plain = re.sub(r"(?<=\d)(?:_?[ui](?:8|16|32|64|size))\b| as \w+", "", expression)
    plain = re.sub(r"\b[A-Z]\w*::MAX\b|\bu32::MAX\b", "0xFFFF_FFFF", plain)
    for name in set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", plain)):
        value = constant_value(text, name)
        if not isinstance(value, int):
            return None
        plain = re.sub(rf"\b{name}\b", str(value), plain)
    try:
        return _arithmetic(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _arithmetic(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _arithmetic(left) + _arithmetic(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _arithmetic(left) - _arithmetic(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _arithmetic(left) * _arithmetic(right)
        case ast.BinOp(left=left, op=ast.LShift(), right=right):
            return _arithmetic(left) << _arithmetic(right)
    raise ValueError(ast.dump(node))


def format_against_rust(document: Source, rust: dict[str, str]) -> list[Finding]:
    """Rows of docs/format.md that differ from the structs and constants that they name."""
    findings = []
    for index, line in enumerate(document.lines):
        if mark := STRUCT_MARK.search(line):
            findings.extend(_struct_rows(document, index, mark.group(1), mark.group(2), rust))
        elif line.strip() == CONSTANTS_MARK:
            findings.extend(_constant_rows(document, index, rust))
        elif line.strip() == KINDS_MARK:
            findings.extend(_kind_rows(document, index, rust))
    return findings


def _struct_rows(document: Source, index: int, path: str, name: str, rust: dict[str, str]) -> list[Finding]:
    layout = struct_layout(rust.get(path, ""), name)
    if layout is None:
        return [Finding(document.path, index + 1, f"{path} has no struct {name}")]
    findings = []
    rows = table_after(document.lines, index)
    for row, (offset, size, field) in zip(rows, layout, strict=False):
        said = (row.cells[0], row.cells[1], row.cells[2].strip("`"))
        if said != (str(offset), str(size), field):
            findings.append(Finding(document.path, row.line, f"says {said}, {name} has {(offset, size, field)}"))
    if len(rows) != len(layout):
        findings.append(Finding(document.path, index + 1, f"{len(rows)} rows, {name} has {len(layout)} fields"))
    return findings


def _constant_rows(document: Source, index: int, rust: dict[str, str]) -> list[Finding]:
    findings = []
    for row in table_after(document.lines, index):
        name, said, path = row.cells[0].strip("`"), row.cells[1].strip("`"), row.cells[2].strip("`")
        value = constant_value(rust.get(path, ""), name)
        if isinstance(value, int):
            equal = said.replace(" ", "").replace(",", "") in {str(value), hex(value)}
        else:
            equal = value is not None and said == value
        if not equal:
            findings.append(Finding(document.path, row.line, f"{name} is {value} in {path}, not {said}"))
    return findings


def _kind_rows(document: Source, index: int, rust: dict[str, str]) -> list[Finding]:
    """Kinds whose number is another in the code, and kinds of the code that the page does not have."""
    findings = []
    listed: dict[str, str] = {}
    for row in table_after(document.lines, index):
        path = row.cells[2].strip("`")
        if not path:
            continue
        name = "KIND_" + row.cells[1].upper().replace(" ", "_")
        listed[name] = path
        value = constant_value(rust.get(path, ""), name)
        if str(value) != row.cells[0]:
            findings.append(Finding(document.path, row.line, f"{name} is {value} in {path}, not {row.cells[0]}"))
    constants = {row.cells[0].strip("`") for row in _rows_of_constants(document)}
    for path, text in rust.items():
        missing = [name for name in KIND.findall(text) if listed.get(name) != path or name not in constants]
        findings.extend(Finding(document.path, index + 1, f"{name} of {path} is not listed") for name in missing)
    return findings


def _rows_of_constants(document: Source) -> list[Row]:
    marks = [at for at, line in enumerate(document.lines) if line.strip() == CONSTANTS_MARK]
    return [row for at in marks for row in table_after(document.lines, at)]
