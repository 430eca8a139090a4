"""Rules for Rust: sizes, import arrows, purity of the core, where `unsafe` may stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidy.files import Finding, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FUNCTION_LINES_MAX = 70
UNSAFE_HOMES = ("rust/engine/src/files/mapping.rs", "rust/binding/src/tables/importing.rs")
CORE = "rust/core/src/"
ENGINE = "rust/engine/src/"
# What is counted for others to read, and what is the process's own.
UNMODELLED = frozenset(
    ENGINE + name
    for name in ("sync.rs", "query/metrics.rs", "files/mapping.rs", "files/store_lock.rs", "failpoints.rs")
)
LOCKS = re.compile(
    r"\b(Mutex(?:Guard)?|Condvar|RwLock\w*|Atomic\w+|Barrier|mpsc|Instant|JoinHandle|spawn|sleep|park\w*|thread)\b"
)

# Lower may not import upper; modules of one level may use each other, but not in a circle.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("units", "error", "planted"),
    ("record",),
    ("storage",),
    ("message_log", "run"),
    ("schedule_log", "dispatch_log", "wheel", "clock", "replication"),
    ("queues",),
    ("store",),
    ("wire",),
)
# The feed turns the wheel, and the wheel holds the schedule's entries.
CIRCLES_ALLOWED = frozenset({frozenset({"schedule_log", "wheel"})})
LEVEL_OF = {module: level for level, modules in enumerate(LEVELS) for module in modules}

IMPURE = re.compile(
    r"\bstd::(fs|thread|net|env|process|os)\b|\b(SystemTime|Instant)\b|\bstd::\{[^}]*\b(fs|thread|net|env|process)\b"
)

TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])'""",
    re.DOTALL,
)


def without_words(text: str) -> str:
    """Rust with comments and literals blanked, line by line in place."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return TOKENS.sub(blank, text)


def without_tests(text: str) -> str:
    """Blanked Rust without what stands under `#[cfg(test)]` with a body of its own."""
    for match in reversed(list(re.finditer(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub\s+)?mod\s+\w+\s*\{", text))):
        end = closing_brace(text, match.end() - 1)
        text = text[: match.start()] + re.sub(r"[^\n]", " ", text[match.start() : end]) + text[end:]
    return text


def closing_brace(text: str, opening: int) -> int:
    """The index after the brace that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def function_sizes(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines of every function with a body."""
    blanked = without_words(text)
    for match in re.finditer(r"\bfn\s+(\w+)", blanked):
        depth = 0
        for index in range(match.end(), len(blanked)):
            letter = blanked[index]
            if letter in "([":
                depth += 1
            elif letter in ")]":
                depth -= 1
            elif depth == 0 and letter == ";":
                break
            elif depth == 0 and letter == "{":
                first = line_of(blanked, match.start())
                yield match.group(1), first, line_of(blanked, closing_brace(blanked, index) - 1) - first + 1
                break


def long_functions(source: Source) -> list[Finding]:
    return [
        Finding(source.path, line, f"function {name} has {size} lines, the limit is under {FUNCTION_LINES_MAX}")
        for name, line, size in function_sizes(source.text)
        if size >= FUNCTION_LINES_MAX
    ]


def misplaced_unsafe(source: Source) -> list[Finding]:
    if source.path in UNSAFE_HOMES:
        return []
    blanked = without_words(source.text)
    return [
        Finding(source.path, line_of(blanked, match.start()), f"`unsafe` stands only in {' and '.join(UNSAFE_HOMES)}")
        for match in re.finditer(r"\bunsafe\b(?!_)", blanked)
    ]


def unmodelled_locks(source: Source) -> list[Finding]:
    """Locks, signals and threads of the engine that a model checker would not see."""
    if not source.path.startswith(ENGINE) or source.path in UNMODELLED:
        return []
    blanked = without_tests(without_words(source.text))
    return [
        Finding(source.path, line_of(blanked, match.start()), f"`{match.group(1)}` comes from `crate::sync`")
        for use in re.finditer(r"\bstd::(?:sync|thread|time)\b[^;]*;", blanked)
        for match in [LOCKS.search(use.group())]
        if match
    ]


TEST_MODULE = re.compile(
    r"#\[cfg\(test\)\]\s*(?:#\[path = \"(?P<path>[\w./]+)\"\]\s*)?(?:pub(?:\(\w+\))?\s+)?mod\s+(?P<name>\w+)\s*;"
)


def test_modules(sources: Iterable[Source]) -> frozenset[str]:
    """The files that are compiled for tests only, because the module above says so, or one above that."""
    paths = set()
    sources = list(sources)
    for source in sources:
        folder = source.path.removesuffix(".rs")
        folder = folder.rpartition("/")[0] if source.name in {"mod.rs", "lib.rs"} else folder
        for match in TEST_MODULE.finditer(source.text):
            if match["path"]:
                paths.add(f"{source.path.rpartition('/')[0]}/{match['path']}")
            else:
                paths |= {f"{folder}/{match['name']}.rs", f"{folder}/{match['name']}/mod.rs"}
    below = tuple(f"{path.removesuffix('/mod.rs').removesuffix('.rs')}/" for path in paths)
    return frozenset(paths | {source.path for source in sources if source.path.startswith(below)})


def impure_core(source: Source) -> list[Finding]:
    if not source.path.startswith(CORE):
        return []
    blanked = without_tests(without_words(source.text))
    return [
        Finding(source.path, line_of(blanked, match.start()), f"the core is pure: no `{match.group()}`")
        for match in IMPURE.finditer(blanked)
    ]


def core_module(path: str) -> str | None:
    """The top-level module of the core that a file belongs to; None for lib.rs and other crates."""
    if not path.startswith(CORE):
        return None
    module = path.removeprefix(CORE).split("/")[0].removesuffix(".rs")
    return None if module == "lib" else module


def uses_of(text: str) -> Iterator[tuple[str, int]]:
    """Every top-level module named after `crate::`, with its line; grouped imports count each."""
    blanked = without_tests(without_words(text))
    for match in re.finditer(r"\bcrate::\s*(?:(\w+)|\{)", blanked):
        line = line_of(blanked, match.start())
        if match.group(1):
            yield match.group(1), line
        else:
            inside = blanked[match.end() : closing_brace(blanked, match.end() - 1) - 1]
            while re.search(r"\{[^{}]*\}", inside):
                inside = re.sub(r"\{[^{}]*\}", "", inside)
            for part in inside.split(","):
                if name := re.match(r"\s*(\w+)", part):
                    yield name.group(1), line


def import_arrows(sources: Iterable[Source]) -> list[Finding]:
    """Modules that import from above, unknown modules, and circles within a level."""
    findings: list[Finding] = []
    beside: dict[str, set[str]] = {}
    for source in sources:
        module = core_module(source.path)
        if module is None:
            continue
        if module not in LEVEL_OF:
            findings.append(Finding(source.path, 1, f"module {module} has no level in tests/tidy/rust.py"))
            continue
        for used, line in uses_of(source.text):
            if used not in LEVEL_OF or used == module:
                continue
            if LEVEL_OF[used] > LEVEL_OF[module]:
                findings.append(Finding(source.path, line, f"{module} may not import {used}, which lies above it"))
            elif LEVEL_OF[used] == LEVEL_OF[module]:
                beside.setdefault(module, set()).add(used)
    for module in sorted(beside):
        circle = frozenset(other for other in reachable(module, beside) if module in reachable(other, beside))
        if circle and circle not in CIRCLES_ALLOWED:
            findings.append(Finding(f"{CORE}{module}", 1, f"{module} imports itself through {sorted(circle)}"))
    return findings


def reachable(module: str, arrows: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(arrows.get(module, ()))
    while waiting:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            waiting.extend(arrows.get(here, ()))
    return seen
