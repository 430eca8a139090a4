"""The forgetful file system of `rust/amnesia`: started, told, and always unmounted."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

MUST_RUN = "TESTS_OF_ROOT_MUST_RUN"
FUSE = Path("/dev/fuse")
LOSSES = ("all", "later", "any", "earlier")
ENDS_WITHIN_S = 20


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class NotToldError(Exception):
    """The file system did not do what it was told."""


@dataclass
class FileSystem:
    """Mounted at a folder, in memory."""

    program: Path
    place: Path
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [str(self.program), str(self.place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def tell(self, line: str) -> dict[str, int]:
        """Tells it one thing; its figures, by name."""
        if self.process.stdin is None:
            raise NotToldError(line)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise NotToldError(f"{line}: {error}") from error
        return self._answer()

    def _answer(self) -> dict[str, int]:
        answer = self.process.stdout.readline().split() if self.process.stdout else []
        if answer[:1] != ["ok"]:
            raise NotToldError(" ".join(answer) or "it has ended")
        return {name: int(value) for name, _, value in (word.partition("=") for word in answer[1:])}

    def end(self) -> None:
        """Unmounts it, whatever state it is in."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self.process.returncode != 0:
            subprocess.run(["umount", "-l", str(self.place)], stderr=subprocess.DEVNULL, check=False)
        with contextlib.suppress(OSError):
            self.place.rmdir()


def opens(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


def not_run(layer: str, devices: tuple[Path, ...]) -> int | None:
    """Says why a layer is not run here, with what its process is to exit with; None where it can run.

    It is no pass: where `.ci/run` runs it as root, and the devices are there, it fails later by itself; where they are
    not, 0 is answered, because nothing here could run it.
    """
    missing = [str(device) for device in devices if not opens(device)]
    if not missing and os.geteuid() == 0:
        return None
    reason = f"{', '.join(missing)} cannot be opened" if missing else "only root may mount"
    say(f"{layer}: NOT RUN: {reason}")
    return 0


def work_folder() -> Path:
    """Where the ledgers lie: in memory, and never on a disk that is cut."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path("target/tmp")


def keep(ledger: Path) -> Path:
    """A copy of what a broken promise can be seen in, where it stays."""
    kept = Path("target/tmp") / ledger.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ledger, kept)
    return kept
