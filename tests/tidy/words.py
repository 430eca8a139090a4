"""Rules for every file: sizes, banned names and marks, paths of a machine, Python functions."""

from __future__ import annotations

import ast
import re

from tidy.files import Finding, Source
from tidy.rust import without_words

FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 600  # docs/decisions/0001
FUNCTION_LINES_MAX = 70

# Written in halves, so that this file does not break its own rules.
BANNED_NAMES = ("ut" + "ils", "ut" + "il", "help" + "ers", "com" + "mon", "man" + "ager")
MARKS = ("TO" + "DO", "FIX" + "ME", "X" * 3, "to" + "do!", "unimplem" + "ented!")
MARK = re.compile(rf"\b(?:{'|'.join(re.escape(mark) for mark in MARKS[:3])})\b|(?<!\w)(?:{MARKS[3]}|{MARKS[4]})")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work|workspace|mnt|private|opt|tmp)/[\w.]+")
URL = re.compile(r"\b(?:https?|git|ssh)://([\w.-]+)")
# Those of packaging/cluster are of nobody: names in a network of containers, any address, and the domain for examples.
OF_CLUSTER = frozenset({"etcd1", "etcd2", "etcd3", "0.0.0.0", "a.example", "b.example", "c.example"})
KNOWN_HOSTS = frozenset({"github.com", "www.apache.org", "127.0.0.1", "localhost"}) | OF_CLUSTER
RUST_DEFINITION = re.compile(r"\b(?:fn|struct|enum|trait|mod|type|const|static|union)\s+(\w+)")
PYTHON_DEFINITION = re.compile(r"^\s*(?:def|class|async def)\s+(\w+)", re.MULTILINE)


def long_file(source: Source) -> list[Finding]:
    if source.suffix not in {".rs", ".py", ".pyi"}:
        return []
    limit = TEST_FILE_LINES_MAX if source.is_test else FILE_LINES_MAX
    lines = len(source.lines)
    if lines < limit:
        return []
    return [Finding(source.path, lines, f"{lines} lines, the limit is under {limit}: split it by role")]


def long_python_functions(source: Source) -> list[Finding]:
    if source.suffix != ".py":
        return []
    findings = []
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size >= FUNCTION_LINES_MAX:
                message = f"function {node.name} has {size} lines, the limit is under {FUNCTION_LINES_MAX}"
                findings.append(Finding(source.path, node.lineno, message))
    return findings


def words_in(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def banned_names(source: Source) -> list[Finding]:
    """Names that say nothing about what a thing is, in paths and in definitions."""
    findings = [
        Finding(source.path, 1, f"the name {word!r} says nothing: name the role")
        for part in source.path.split("/")
        for word in words_in(part)
        if word in BANNED_NAMES
    ]
    if source.suffix not in {".rs", ".py", ".pyi"}:
        return findings
    pattern = RUST_DEFINITION if source.suffix == ".rs" else PYTHON_DEFINITION
    text = without_words(source.text) if source.suffix == ".rs" else source.text
    for match in pattern.finditer(text):
        if any(word in BANNED_NAMES for word in words_in(match.group(1))):
            line = text.count("\n", 0, match.start(1)) + 1
            findings.append(Finding(source.path, line, f"the name {match.group(1)!r} says nothing: name the role"))
    return findings


def leftover_marks(source: Source) -> list[Finding]:
    return _each_line(source, MARK, "is unfinished work: finish it or open an issue")


def machine_paths(source: Source) -> list[Finding]:
    return _each_line(source, MACHINE_PATH, "is a path of one machine")


def unknown_hosts(source: Source) -> list[Finding]:
    if source.name == "LICENSE":
        return []
    return [
        Finding(source.path, number, f"{match.group()} names a host that is not in tests/tidy/words.py")
        for number, line in enumerate(source.lines, 1)
        for match in URL.finditer(line)
        if match.group(1) not in KNOWN_HOSTS
    ]


def _each_line(source: Source, pattern: re.Pattern[str], words: str) -> list[Finding]:
    return [
        Finding(source.path, number, f"{match.group()!r} {words}")
        for number, line in enumerate(source.lines, 1)
        for match in pattern.finditer(line)
    ]
