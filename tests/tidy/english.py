"""The rules of CONTRIBUTING.md for English that a program can check, in the documents and the package's docstrings.

Headings, code, comments and the targets of links are not checked. A question in a document may begin with any word.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tidy.files import Finding, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = ("docs/", "benches/", "packaging/")
PAGES = frozenset({"ARCHITECTURE.md", "CHANGELOG.md", "README.md"})

CLAUSE = re.compile(r"(?:Who|Whom|Whose|What|Of|Such|Whoever|Whatever|Whichever)\b")
WORDS = {
    "told": "reported",
    "owed": "due, or the noun",
    "owes": "the verb for what happens",
    "beside": "next to, or while",
    "of them": "the noun",
    "whoever": "any caller, any process",
    "who asks": "the caller",
    "without a word": "without a report",
    "for ever": "permanently",
    "anew": "again",
    "lets go": "closes",
    "let go": "close",
    "letting go": "closing",
    "gives up": "ends, expires or voids",
    "give up": "end, expire or void",
    "given up": "ended, expired or voided",
    "giving up": "expiry or voiding",
    "burying": "dead letters",
    "haste": "commit urgency",
    "crowd": "the noun",
}
BANNED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
ALSO = re.compile(r", too(?=[.,;:)]|$)|\bso (?:it is|is it|they are|are they)(?=[.,;:]|$| with\b)", re.IGNORECASE)

BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
TARGET = re.compile(r"\]\([^)\s]*\)")
HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ")
SENTENCE = re.compile(r"(?<=[.!?:;])[)*_\"”]* +(?=\S)")


def plain_english(source: Source) -> list[Finding]:
    """Sentences whose subject is a clause, and words that have a plainer one."""
    if not is_checked(source.path):
        return []
    text = prose(source.text)
    findings = [
        clause_as_subject(source.path, line, sentence)
        for line, sentence in clauses(text)
        if not sentence.rstrip("*_").endswith("?")
    ]
    for number, line in enumerate(text.splitlines(), 1):
        findings += [
            Finding(source.path, number, f"{found.group()!r}: write {WORDS[found.group().lower()]}")
            for found in BANNED.finditer(line)
        ]
        findings += [Finding(source.path, number, f"{found.group()!r}: write also") for found in ALSO.finditer(line)]
    return findings


def plain_docstrings(source: Source) -> list[Finding]:
    """Sentences in docstrings of the package whose subject is a clause."""
    if not source.path.startswith("python/") or source.suffix not in {".py", ".pyi"}:
        return []
    return [
        clause_as_subject(source.path, node.lineno, sentence)
        for node in ast.walk(ast.parse(source.text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for _, sentence in clauses(prose(node.value.value))
    ]


def is_checked(path: str) -> bool:
    return path.endswith(".md") and (path in PAGES or path.startswith(FOLDERS))


def clause_as_subject(path: str, line: int, sentence: str) -> Finding:
    return Finding(path, line, f"{sentence[:50]!r} begins with a clause as its subject: name the noun first")


def clauses(text: str) -> Iterator[tuple[int, str]]:
    """Sentences that begin with a clause as their subject."""
    return ((line, sentence) for line, sentence in sentences(text) if CLAUSE.match(sentence))


def prose(text: str) -> str:
    """The text without code, comments, headings and targets of links, line for line."""
    for pattern in (BLOCK, COMMENT):
        text = pattern.sub(lambda found: "\n" * found.group().count("\n"), text)
    text = HEADING.sub("", CODE.sub("`x`", text))
    return TARGET.sub("]", text)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence with the line on which its paragraph, item or row begins."""
    for line, paragraph in paragraphs(text):
        for sentence in SENTENCE.split(paragraph):
            yield line, sentence.strip(' *_("[')


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and items on one line each, and the cells of tables."""
    lines: list[str] = []
    first = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_row = line.startswith("|")
        if lines and (is_row or not line.strip() or ITEM.match(line)):
            yield first, " ".join(lines)
            lines = []
        if is_row:
            yield from ((number, cell.strip()) for cell in line.strip("|").split("|"))
        elif line.strip():
            first = first if lines else number
            lines.append(ITEM.sub("", line, count=1).strip())
