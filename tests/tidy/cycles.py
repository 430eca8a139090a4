"""Import cycles between the Rust files of one crate.

A file imports another one where a path of a `use`, or of the code, that begins with `crate`, `self` or `super` leads
to an item of it; a re-export is followed to the file that has the item. Not counted are `mod` lines, re-exports
themselves, and everything that is compiled for tests only. Files that reach each other are one cycle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from tidy.files import Finding, Source
from tidy.rust import test_modules, without_tests, without_words

# How many files of each crate are in a cycle. A number may fall and never rises; a crate without one has none.
# The engine's cycle is `Shared`, whose methods are spread by role.
# The server's is its state, with the connections and consumers that it holds and that work on it.
FILES_IN_CYCLES = {
    "rust/engine": 12,
    "rust/server": 14,
}

USE = re.compile(r"(?P<public>\bpub(?:\s*\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);")
PATH = re.compile(r"(?<![\w:.$])(?:crate|self|super)(?:\s*::\s*\w+)+")
TEST_USE = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub(?:\([^)]*\))?\s+)?use\s[^;]+;")

Path = tuple[str, ...]


def leaves(tree: str) -> Iterator[tuple[Path, str]]:
    """Every path of a `use` tree, with the name that it gives."""
    tree = tree.strip()
    before, brace, rest = tree.partition("{")
    if brace:
        prefix = tuple(name.strip() for name in before.split("::") if name.strip())
        for part in split(rest[: rest.rindex("}")]):
            for path, name in leaves(part):
                whole = prefix + path
                yield (prefix, prefix[-1]) if path == ("self",) else (whole, name)
        return
    path_text, _, alias = tree.partition(" as ")
    path = tuple(name.strip() for name in path_text.split("::") if name.strip())
    if path:
        yield path, alias.strip() or path[-1]


def split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no braces."""
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if text[start:].strip():
        yield text[start:]


class Module:
    """One file, as a module of its crate."""

    def __init__(self, source: Source, path: Path) -> None:
        self.source = source
        self.path = path

    @cached_property
    def text(self) -> str:
        return TEST_USE.sub("", without_tests(without_words(self.source.text)))

    @cached_property
    def re_exports(self) -> dict[str, Path]:
        """The names that this module gives out for others, and all that it imports for its own children."""
        return {name: path for match in USE.finditer(self.text) for path, name in leaves(match["tree"]) if name != "*"}

    @cached_property
    def imports(self) -> set[Path]:
        found = set()
        for match in USE.finditer(self.text):
            if not match["public"]:
                found |= {path for path, _ in leaves(match["tree"])}
        rest = USE.sub("", self.text)
        found |= {tuple(re.split(r"\s*::\s*", match.group())) for match in PATH.finditer(rest)}
        return found


class Crate:
    """The files of one `src` folder."""

    def __init__(self, folder: str, sources: Iterable[Source]) -> None:
        self.modules: dict[Path, Module] = {}
        for source in sources:
            parts = source.path.removeprefix(folder).removesuffix(".rs").split("/")
            if parts[-1] in {"mod", "lib", "main"}:
                parts.pop()
            self.modules[tuple(parts)] = Module(source, tuple(parts))

    def absolute(self, module: Module, path: Path) -> Path | None:
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module.path + path[1:]
        if path[0] == "super":
            ups = next((at for at, name in enumerate(path) if name != "super"), len(path))
            return module.path[: len(module.path) - ups] + path[ups:]
        return module.path + path if module.path + path[:1] in self.modules else None

    def file_of(self, path: Path, depth: int = 0) -> Path | None:
        """The module whose file has the item of an absolute path."""
        known = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in self.modules), None)
        if known is None:
            return None
        rest = path[len(known) :]
        if rest and depth < 8 and (target := self.modules[known].re_exports.get(rest[0])):
            absolute = self.absolute(self.modules[known], target)
            if absolute is not None and absolute != path[: len(known) + 1]:
                return self.file_of(absolute + rest[1:], depth + 1)
        return known

    def arrows(self) -> dict[Path, set[Path]]:
        found: dict[Path, set[Path]] = {}
        for module in self.modules.values():
            for path in module.imports:
                absolute = self.absolute(module, path)
                target = None if absolute is None else self.file_of(absolute)
                if target is not None and target != module.path:
                    found.setdefault(module.path, set()).add(target)
        return found


def circles(arrows: dict[Path, set[Path]]) -> list[frozenset[Path]]:
    """The sets of files that all reach each other."""
    reached = {path: reachable(path, arrows) for path in arrows}
    found = {
        frozenset(other for other in reached[path] if path in reached.get(other, ()))
        for path in arrows
        if path in reached[path]
    }
    return sorted(found, key=sorted)


def reachable(path: Path, arrows: dict[Path, set[Path]]) -> set[Path]:
    seen: set[Path] = set()
    waiting = list(arrows.get(path, ()))
    while waiting:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            waiting.extend(arrows.get(here, ()))
    return seen


def import_cycles(sources: Iterable[Source], limits: dict[str, int]) -> list[Finding]:
    """The crates of which more files are in a cycle than their limit says, with the cycles."""
    folders: dict[str, list[Source]] = {}
    sources = list(sources)
    for_tests = test_modules(sources)
    for source in sources:
        if (match := re.match(r"(rust/\w+)/src/", source.path)) and source.path not in for_tests:
            folders.setdefault(match[1], []).append(source)
    findings = []
    for folder, members in sorted(folders.items()):
        found = circles(Crate(f"{folder}/src/", members).arrows())
        count = sum(len(circle) for circle in found)
        if count > limits.get(folder, 0):
            names = "; ".join(", ".join("::".join(path) for path in sorted(circle)) for circle in found)
            findings.append(
                Finding(folder, 1, f"{count} files import each other, {limits.get(folder, 0)} may: {names}")
            )
    return findings
