"""Which branches of the core the tests of Rust (its own, the engine's, the server's) and the simulation take."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumented.toolchain import PROFILE, BrokenError, NotHereError, Rustc, Tests, llvm_tool, said_by
from power_cuts import equipment
from tidy import rust
from tidy.files import ROOT, Source, project_files

PACKAGES = ("delaymq-core", "delaymq-simulation", "delaymq-engine", "delaymq-server")
FLAGS = "-Cinstrument-coverage -Zcoverage-options=branch"
ASKED = 90.0
"""Per cent of the core's branches that are to be taken; fewer fail."""
FOLDER = ROOT / "target" / "branches"
SIMULATED = (("--seeds", "600"), ("--small-worlds", "40000"))
"""What the simulation is run with beside its tests."""


@dataclass(frozen=True, order=True)
class Branch:
    """One way to go on from a condition."""

    path: str
    line: int
    column: int
    way: bool


def product_lines() -> dict[str, frozenset[int]]:
    """By file of the core, the lines that are no tests."""
    sources = [source for source in project_files() if source.suffix == ".rs"]
    for_tests = rust.test_modules(sources)
    product = [source for source in sources if source.path.startswith(rust.CORE) and source.path not in for_tests]
    return {source.path: code_lines(source) for source in product if not source.is_test}


def code_lines(source: Source) -> frozenset[int]:
    blanked = rust.without_tests(rust.without_words(source.text)).splitlines()
    return frozenset(number for number, line in enumerate(blanked, 1) if line.strip())


def taken(export: Mapping[str, Any], lines: Mapping[str, frozenset[int]], root: Path = ROOT) -> dict[Branch, int]:
    """How often each branch of these lines was taken, all instances of a generic function together."""
    counts: dict[Branch, int] = defaultdict(int)
    for file in export["data"][0]["files"]:
        path = file["filename"].removeprefix(f"{root}/")
        for line, column, _, _, yes, no, *_ in file.get("branches", []):
            if line in lines.get(path, ()):
                counts[Branch(path, line, column, True)] += yes
                counts[Branch(path, line, column, False)] += no
    return dict(counts)


def per_cent(counts: Mapping[Branch, int]) -> float:
    return 100 * sum(count > 0 for count in counts.values()) / len(counts)


def table(counts: Mapping[Branch, int]) -> list[str]:
    """The files by how many of their branches are not taken, and each of those."""
    by_file: dict[str, list[Branch]] = defaultdict(list)
    for branch in counts:
        by_file[branch.path].append(branch)

    def untaken(path: str) -> list[Branch]:
        return sorted(branch for branch in by_file[path] if not counts[branch])

    lines = []
    for path in sorted(by_file, key=lambda path: -len(untaken(path))):
        lines.append(f"{path}: {len(untaken(path))} of {len(by_file[path])} are not taken")
        lines += [f"  {branch.line}:{branch.column} {'yes' if branch.way else 'no'}" for branch in untaken(path)]
    return lines


def tool(name: str, compiler: Rustc) -> str:
    """The tool, after all was tried to have it."""
    try:
        return llvm_tool(name, compiler)
    except NotHereError as missing:
        if os.geteuid() != 0:
            raise
        if reason := equipment.install(f"llvm-{compiler.llvm_major}"):
            raise NotHereError(f"{missing}; {reason}") from None
    return llvm_tool(name, compiler)


def measured(compiler: Rustc, leave_out: Iterable[str] = ()) -> str:
    merge, export = tool("llvm-profdata", compiler), tool("llvm-cov", compiler)
    profiles = FOLDER / "profiles"
    shutil.rmtree(profiles, ignore_errors=True)
    profiles.mkdir(parents=True)
    tests = Tests(PACKAGES, FLAGS, "branches", changes={"LLVM_PROFILE_FILE": str(profiles / "%m-%p.profraw")})
    programs = tests.programs()
    # What the compiler's own helpers and build scripts wrote while building.
    for profile in profiles.iterdir():
        profile.unlink()
    count = tests.run(leave_out)
    simulate(tests)
    whole = FOLDER / "whole.profdata"
    merged = said_by([merge, "merge", "-sparse", "-o", str(whole), *map(str, profiles.glob("*.profraw"))])
    if merged.returncode != 0:
        raise BrokenError(merged.stderr[-2_000:])
    objects = [word for program in programs[1:] for word in ("-object", str(program))]
    command = [export, "export", "-instr-profile", str(whole), "-skip-functions", str(programs[0]), *objects]
    exported = said_by([*command, "-sources", str(ROOT / rust.CORE)])
    if exported.returncode != 0:
        raise BrokenError(exported.stderr[-2_000:])
    counts = taken(json.loads(exported.stdout), product_lines())
    return told(counts, count)


def simulate(tests: Tests) -> None:
    program = FOLDER / PROFILE / "delaymq-simulation"
    for arguments in SIMULATED:
        done = said_by([str(program), *arguments], tests.changes)
        if done.returncode != 0:
            raise BrokenError(f"{program.name} {' '.join(arguments)}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")


def told(counts: Mapping[Branch, int], tests: int) -> str:
    if not counts:
        raise BrokenError("no branch of the core was seen")
    (FOLDER / "untaken.txt").parent.mkdir(parents=True, exist_ok=True)
    (FOLDER / "untaken.txt").write_text("\n".join(table(counts)) + "\n")
    covered = per_cent(counts)
    words = f"{covered:.1f} % of {len(counts):,} branches of the core are taken by {tests} tests and the simulation"
    if covered < ASKED:
        raise BrokenError(f"{words}, {ASKED:.0f} % are asked for; target/branches/untaken.txt names the others")
    return words
