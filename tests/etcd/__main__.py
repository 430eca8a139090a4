"""Runs a command whose tests need etcd, after installing Debian's etcd-server where there is none.

`python -m etcd COMMAND…` exits with the command's code. Where etcd cannot be installed, it says that the tests were not
run, and exits with 1 if root must run them (`.ci/run`), or 0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from power_cuts.equipment import MUST_RUN, install

PACKAGES = {"etcd": "etcd-server", "openssl": "openssl"}


def why_not() -> str:
    """Why the tests cannot be run here; empty where they can."""
    for program, package in PACKAGES.items():
        if shutil.which(program) is not None:
            continue
        if os.geteuid() != 0:
            return f"package {package} is not installed, and only root can install it"
        if reason := install(package):
            return reason
    return ""


def main(command: list[str]) -> int:
    if reason := why_not():
        print(f"etcd: NOT RUN, {reason}")
        return 1 if os.environ.get(MUST_RUN) and os.geteuid() == 0 else 0
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
