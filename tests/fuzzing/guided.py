"""libFuzzer: built where the machine can, run over one target, and what it found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "rust" / "fuzz" / "guided"
BUILT = ROOT / "target" / "guided"
COMPILERS = ("c++", "g++", "clang++")
COVERAGE = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
)
# An input that takes longer, or memory beyond this, is a finding, too.
SECONDS_MAX = 10
MEMORY_MIB_MAX = 512
ONE_ALLOCATION_MIB_MAX = 64
INPUT_BYTES_MAX = 65_536
# A fault that following what inputs reach finds within seconds from no input at all.
PLANTED = ("qmq_send", "RefusedForNow")
PLANTED_SECONDS = 60
FOUND = re.compile(r"Test unit written to (\S+)")
SPEED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
COVERED = re.compile(r"cov: (\d+)")


class NotRunError(Exception):
    """The machine cannot."""


class BlindError(Exception):
    """It runs, and would not see a promise that is broken."""


def host() -> str:
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line.removeprefix("host: ") for line in told.splitlines() if line.startswith("host: "))


def built(*, with_addresses: bool) -> Path:
    """The program with libFuzzer in it."""
    if not any(shutil.which(compiler) for compiler in COMPILERS):
        raise NotRunError("libFuzzer needs a C++ compiler, and there is none")
    flags, environment = list(COVERAGE), dict(os.environ)
    if with_addresses:
        # What the released compiler has in it and calls unstable.
        environment["RUSTC_BOOTSTRAP"] = "1"
        flags.append("-Zsanitizer=address")
    # With a target that is named the flags are not those of build scripts.
    environment["RUSTFLAGS"] = " ".join(flags)
    environment["CARGO_TARGET_DIR"] = str(BUILT / ("address" if with_addresses else "plain"))
    command = ["cargo", "build", "--locked", "--release", "--target", host(), "--manifest-path", "Cargo.toml"]
    ended = subprocess.run(command, cwd=CRATE, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NotRunError(f"libFuzzer cannot be built here:\n{ended.stderr[-2_000:]}")
    return Path(environment["CARGO_TARGET_DIR"]) / host() / "release" / "delaymq-fuzz-guided"


@dataclass(frozen=True)
class Ended:
    """What one target came to."""

    executions: int
    covered: int
    finding: Path | None
    said: str


def prove(program: Path, folder: Path, *, seed: int) -> Ended:
    """Makes sure that it finds a fault that is planted, with nothing to begin with: so it follows what inputs reach."""
    target, fault = PLANTED
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "nothing" / target).mkdir(parents=True)
    found = folder / "found" / target
    ended = guided(program, target, folder / "nothing", found, seconds=PLANTED_SECONDS, seed=seed, fault=fault)
    if ended.finding is None:
        raise BlindError(f"{target} with {fault} planted: nothing found by {ended.executions:,} inputs")
    return ended


def guided(
    program: Path, target: str, corpus: Path, found: Path, *, seconds: int, seed: int, fault: str | None = None
) -> Ended:
    """One target for so long. What it learns stays in the folder `found` and is begun with the next time."""
    found.mkdir(parents=True, exist_ok=True)
    command = [
        str(program),
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-malloc_limit_mb={ONE_ALLOCATION_MIB_MAX}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={found.parent}/{target}-",
        f"-seed={seed}",
        "-print_final_stats=1",
        # Under AddressSanitizer each function that is reached first would be looked up by its name, for seconds.
        "-print_funcs=0",
        str(found),
        str(corpus / target),
    ]
    environment = {**os.environ, "DELAYMQ_FUZZ_TARGET": target} | ({"DELAYMQ_FUZZ_PLANTED": fault} if fault else {})
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    said = ended.stderr.decode(errors="replace")
    # One that was slow while the machine stood still is written, too, and is no finding.
    finding = FOUND.findall(said)[-1:] if ended.returncode else []
    if ended.returncode and not finding:
        raise NotRunError(f"{target}: libFuzzer ended with {ended.returncode}:\n{said[-2_000:]}")
    executed = SPEED.search(said)
    if executed is None or not int(executed[1]):
        raise NotRunError(f"{target}: libFuzzer tried nothing:\n{said[-2_000:]}")
    return Ended(
        executions=int(executed[1]),
        covered=max((int(one) for one in COVERED.findall(said)), default=0),
        finding=Path(finding[0]) if finding else None,
        said=said,
    )
