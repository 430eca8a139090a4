"""What the tests of full disks share: how soon a publish must be refused, and that they are not passed over in CI."""

from __future__ import annotations

import os
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


def _opens(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True
