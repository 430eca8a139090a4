"""What the tests of full disks share: small mounts, how soon a publish must be refused, and that they are not passed
over in CI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

REFUSED_WITHIN_S = 0.1  # docs/guarantees.md
MUST_RUN = "TESTS_OF_ROOT_MUST_RUN"


LOOP_CONTROL = Path("/dev/loop-control")


def cannot(reason: str) -> NoReturn:
    """Skips, but where `.ci/run` runs as a root who may mount a small file system.

    `.ci/run` says by `TESTS_OF_ROOT_MUST_RUN=1` that it is the one that runs. Who runs it, the system says; and a
    root who can open the control of loop devices is not one of a container that may not mount.
    """
    if os.environ.get(MUST_RUN) and os.geteuid() == 0 and _opens(LOOP_CONTROL):
        pytest.fail(f"root in .ci/run must not pass over this: {reason}", pytrace=False)
    pytest.skip(reason)


def must_be_root() -> None:
    """Skips where nothing can be mounted."""
    if os.geteuid() != 0:
        cannot("only root may mount")


@contextmanager
def mounted(folder: Path, *what: str) -> Iterator[Path]:
    """The folder with this mounted at it, as `mount` is told; skips where that cannot be."""
    must_be_root()
    told = subprocess.run(["mount", *what, str(folder)], capture_output=True, text=True, check=False, timeout=30)
    if told.returncode != 0:
        cannot(f"mount was refused: {told.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True, timeout=30)


def fill(folder: Path) -> Path:
    """Takes all the room that is left; the file that has it is removed to give it back."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 512):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return ballast


def _opens(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True
