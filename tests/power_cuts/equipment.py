"""What this machine can do, what is installed for it, and why the rest is not run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from power_cuts import kernel
from power_cuts.images import Image, Kind

MUST_RUN = "TESTS_OF_ROOT_MUST_RUN"
LOOP_CONTROL = Path("/dev/loop-control")
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs"}
INSTALL_SECONDS = 300


def must_run() -> bool:
    """True where .ci/run runs as a root who may make loop devices: a layer that does not run fails there."""
    return bool(os.environ.get(MUST_RUN)) and os.geteuid() == 0 and _opens(LOOP_CONTROL)


def _opens(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


def why_none() -> str:
    """Why no file system can be cut here; empty where some can."""
    if os.geteuid() != 0:
        return "only root can mount file systems"
    if not _opens(LOOP_CONTROL):
        return f"{LOOP_CONTROL} cannot be opened"
    try:
        kernel.keep_mounts_apart()
    except OSError as error:
        return f"no mounts of its own: {error}"
    return ""


def why_not(kind: Kind) -> str:
    """Why this kind of file system cannot be cut here, after all was tried to have it; empty where it can."""
    if shutil.which(kind.program) is None and (reason := install(PACKAGES[kind.program])):
        return f"no {kind.program}: {reason}"
    try:
        with tempfile.TemporaryDirectory() as folder, Image(kind, Path(folder)) as image:
            image.cut()
            image.restore()
    except subprocess.CalledProcessError as error:
        return f"{kind.program} failed: {error.stderr.strip()}"
    except OSError as error:
        return str(error)
    return ""


def install(package: str) -> str:
    """Installs a package of Debian; says why it could not."""
    if shutil.which("apt-get") is None:
        return f"package {package} is not installed, and there is no apt-get to install it"
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    ended = None
    for command in (install, ["apt-get", "update", "-q"], install):
        try:
            ended = subprocess.run(
                command, env=quiet, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)} took longer than {INSTALL_SECONDS} s"
        if ended.returncode == 0 and command is install:
            return ""
    assert ended is not None
    last = (ended.stderr.strip().splitlines() or ["?"])[-1]
    return f"package {package} cannot be installed: {last}"
