"""What the tests of full disks share: how soon a publish must be refused, and that they are not passed over in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REFUSED_WITHIN_S = 0.1  # docs/guarantees.md
MUST_RUN = "TESTS_OF_ROOT_MUST_RUN"


def cannot(reason: str) -> NoReturn:
    """Skips, but where `.ci/run` runs as root, which may mount a small file system.

    `.ci/run` says by `TESTS_OF_ROOT_MUST_RUN=1` that it is the one that runs, and the system says who runs it.
    """
    if os.environ.get(MUST_RUN) and os.geteuid() == 0:
        pytest.fail(f"root in .ci/run must not pass over this: {reason}", pytrace=False)
    pytest.skip(reason)
