"""What the toolchains here can do, and running the tests of Rust with some of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILE = os.environ.get("TEST_PROFILE", "dev-opt")
RESULT = re.compile(r"^test result: (\w+)\. (\d+) passed; (\d+) failed", re.MULTILINE)
FAILURES = re.compile(r"^failures:\n\n(.*?)^failures:\n", re.MULTILINE | re.DOTALL)
"""What the tests that failed said; their names come behind it."""
LLVM_NEWER = 6
"""Newer tools read what an older compiler wrote."""


class NotHereError(Exception):
    """Nothing here can do it; it says what is missing."""


class BrokenError(Exception):
    """It can be done here, and what it says is no pass."""


@dataclass(frozen=True)
class Rustc:
    release: str
    host: str
    llvm_major: int
    sysroot: Path


def said_by(command: Sequence[str], changes: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(changes or {})}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def rustc() -> Rustc:
    told = dict(line.split(": ", 1) for line in said_by(["rustc", "-vV"]).stdout.splitlines() if ": " in line)
    sysroot = Path(said_by(["rustc", "--print", "sysroot"]).stdout.strip())
    return Rustc(told["release"], told["host"], int(told["LLVM version"].split(".")[0]), sysroot)


def sysroots(first: Rustc) -> list[Path]:
    """Those of the toolchain in use and of those beside it."""
    beside = sorted(first.sysroot.parent.glob("*/bin/rustc"))
    return [first.sysroot, *(found.parents[1] for found in beside if found.parents[1] != first.sysroot)]


def llvm_tool(name: str, compiler: Rustc) -> str:
    """The tool of an LLVM that reads what this compiler writes."""
    majors = range(compiler.llvm_major, compiler.llvm_major + LLVM_NEWER)
    places = [str(compiler.sysroot / "lib/rustlib" / compiler.host / "bin" / name)]
    places += [place for major in majors for place in (f"{name}-{major}", f"/usr/lib/llvm-{major}/bin/{name}")]
    seen = []
    for place in [*places, name]:
        found = shutil.which(place)
        if found is None:
            continue
        version = re.search(r"LLVM version (\d+)", said_by([found, "--version"]).stdout)
        if version and int(version[1]) in majors:
            return found
        seen.append(f"{place} is of LLVM {version[1] if version else '?'}")
    wanted = f"no {name} of LLVM {compiler.llvm_major} or newer, as rustc {compiler.release} needs"
    raise NotHereError("; ".join([wanted, *seen]))


@dataclass
class Tests:
    """Some of the tests of Rust, built in a folder of their own."""

    packages: Sequence[str]
    flags: str
    folder: str
    target: str | None = None
    changes: dict[str, str] = field(default_factory=dict)

    def _command(self, *more: str) -> list[str]:
        named = [word for package in self.packages for word in ("-p", package)]
        where = ["--target", self.target] if self.target else []
        folder = ["--target-dir", f"target/{self.folder}", "--profile", PROFILE]
        return ["cargo", "test", "--locked", "--lib", "--tests", *folder, *where, *named, *more]

    def _environment(self) -> dict[str, str]:
        flags = " ".join(filter(None, (os.environ.get("RUSTFLAGS"), self.flags)))
        lines = f"CARGO_PROFILE_{PROFILE.upper().replace('-', '_')}_DEBUG"  # a sanitizer names the lines of all calls
        return {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags, "CARGO_INCREMENTAL": "0", lines: "1", **self.changes}

    def programs(self) -> list[Path]:
        """Builds them; what was built."""
        built = said_by(self._command("--no-run", "--message-format=json"), self._environment())
        if built.returncode != 0:
            raise BrokenError(f"the build failed:\n{built.stderr[-3_000:]}")
        lines = (json.loads(line) for line in built.stdout.splitlines() if line.startswith("{"))
        return [Path(line["executable"]) for line in lines if line.get("executable")]

    def run(self, leave_out: Iterable[str] = ()) -> int:
        """Runs them, but for those whose names contain one of these words; how many passed."""
        passed_over = [word for name in leave_out for word in ("--skip", name)]
        done = said_by(self._command("--no-fail-fast", "--", *passed_over), self._environment())
        return passed(done.returncode, done.stdout, done.stderr)


def passed(code: int, out: str, err: str) -> int:
    """How many tests passed; none is no pass, and neither is one that failed."""
    results = RESULT.findall(out)
    count = sum(int(found[1]) for found in results)
    if code != 0 or any(found[0] != "ok" for found in results):
        said = "\n".join(FAILURES.findall(out)) or out
        raise BrokenError(f"the tests failed with {code}:\n{said[-3_000:]}\n{err[-3_000:]}")
    if count == 0:
        raise BrokenError("no test ran")
    return count


def say(line: str) -> None:
    print(line)
    sys.stdout.flush()
