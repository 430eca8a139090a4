"""The program `rust/engine/examples/tortured` on a disk, life after life, and the ledger of what it told."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
IN_FLIGHT = 16
SUBJECTS, GROUPS = 2, 2
IN_FLIGHT_SUM = IN_FLIGHT * (SUBJECTS + 1) * GROUPS
"""Of all consumers of one life; `ordered` is a subject more."""
SMALL = {
    "--subjects": SUBJECTS,
    "--groups": GROUPS,
    "--in-flight": IN_FLIGHT,
    "--delay-ms-max": 150,
    "--far-ms-max": 600,
    "--copy-after-ms": 100,
    "--checkpoint-facts": 250,
}
CHANGES_MAX = 8
CLOCKS_MS = 2
"""The store counts delays by its trusted clock, the ledger by the wall; each cuts off its part of a millisecond."""
DRAINED = {"--quiet-ms": 150, "--drain-seconds": 30}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Life:
    """One process of the program, under way."""

    process: subprocess.Popen[bytes]
    told: Path

    def size(self) -> int:
        with contextlib.suppress(OSError):
            return self.told.stat().st_size
        return 0

    def exit_code(self, within_s: float) -> int | None:
        """With what it ended; None where it has to be killed."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Ledger:
    """What all lives told, as the checker reads it."""

    path: Path
    harness: str
    seed: int
    options: dict[str, Any]
    receipts: dict[str, str] = field(default_factory=dict)
    lives: int = 0
    ended: dict[str, Any] = field(default_factory=dict)
    """The last line of the last life, which is for the harness."""

    def __post_init__(self) -> None:
        self.add([{"kind": "run", "harness": self.harness, "seed": self.seed, "options": self.options}])

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps({"at_ms": wall_ms(), **line}) + "\n")

    def begin(self, program: Path, mode: str, store: Path, extra: dict[str, Any]) -> Life:
        """Starts the program; the receipts of some late messages are given to it, to be changed."""
        self.lives += 1
        told = self.path.with_suffix(f".life-{self.lives}")
        words = [mode, "--store", store, "--life", self.lives, "--seed", self.seed]
        words += [word for option in {**SMALL, **extra}.items() for word in option]
        if mode == "work":
            for name in sorted(self.receipts)[:CHANGES_MAX]:
                words += ["--change", f"{name}={self.receipts.pop(name)}"]
        with told.open("wb") as file:
            process = subprocess.Popen([str(program), *map(str, words)], stdout=file)
        return Life(process, told)

    def finish(self, life: Life, cause: str) -> None:
        """Takes what an ended life has told, up to its last whole line."""
        text = life.told.read_bytes()
        life.told.unlink()
        self.ended = {}
        lines = []
        for row in text[: text.rfind(b"\n") + 1].splitlines():
            line = json.loads(row)
            if line["kind"] == "ended":
                self.ended = line
                continue
            if line.get("receipt") and line.get("result") in ("acknowledged", "done"):
                self.receipts[line["id"]] = line["receipt"]
            lines.append(line)
        lines.append({"kind": "stop", "cause": cause, "in_flight_max": IN_FLIGHT_SUM})
        self.add(lines)

    def drain(self, program: Path, store: Path, extra: dict[str, Any], *, verify: bool = True) -> str | None:
        """Consumes all that is left; why it could not, or None, and then the ledger can be judged."""
        options = {**DRAINED, "--verify": "yes" if verify else "no", **extra}
        life = self.begin(program, "drain", store, options)
        code = life.exit_code(60)
        if code is None:
            life.kill()
        self.finish(life, "closed")
        if code != 0:
            return f"the drain ended with {code}: {self.ended}"
        self.add([{"kind": "drained"}])
        return None


def judge(ledgers: list[Path], clocks_ms: int = CLOCKS_MS) -> tuple[int, list[dict[str, Any]]]:
    """What the checker says, in a process of its own: its exit code and a verdict for each ledger."""
    command = [sys.executable, "-m", "checker", "--quiet", "--clocks-ms", str(clocks_ms), *map(str, ledgers)]
    run = subprocess.run(command, env={"PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False)
    return run.returncode, [json.loads(line) for line in run.stdout.splitlines()]
