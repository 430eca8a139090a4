"""Checks for the packages and the Java that Spark needs, with one-line errors if they are missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from delaymq.errors import DelaymqError

PACKAGES = ("pyspark", "pyarrow", "pandas")
JAVA_LEAST = 17
NEEDED = f"Spark needs Java {JAVA_LEAST} or later"
VERSION_S = 30
CONNECT_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard")


class MissingSpark(DelaymqError, ImportError):  # noqa: N818 - a name says what happened, as all of delaymq's do
    """PySpark, or the Java that it needs, is missing."""


def require_spark() -> None:
    """Checks for the packages.

    Raises:
        MissingSpark: One of them is not installed.
    """
    _require(PACKAGES, "spark")


def require_connect() -> None:
    """Checks for the additional packages of Spark Connect.

    Raises:
        MissingSpark: One of them is not installed.
    """
    _require(CONNECT_PACKAGES, "spark-connect")


def _require(packages: tuple[str, ...], extra: str) -> None:
    missing = [name for name in packages if not _is_there(name)]
    if missing:
        raise MissingSpark(f'{", ".join(missing)} not installed: pip install "delaymq[{extra}]"')


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def require_java() -> None:
    """Checks for Java where Spark looks for it.

    Raises:
        MissingSpark: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    if _java() is not None:
        return
    if home:
        raise MissingSpark(f"JAVA_HOME is {home}, and there is no bin/java in it: {NEEDED}")
    raise MissingSpark(f"no java was found: {NEEDED}, on the PATH or by JAVA_HOME")


def unusable_java() -> MissingSpark | None:
    """Why an existing Java did not start Spark: it does not run, or it is too old. None if neither is the case.

    It is called after a failure only, since it takes as long as Java needs to start.
    """
    java = _java()
    if java is None:
        return None
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=VERSION_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return MissingSpark(f"{java} does not run ({error}): {NEEDED}")
    said = (done.stderr or done.stdout).strip().partition("\n")[0]
    version = re.search(r'version "(\d+)', said)
    if done.returncode or version is None:
        return MissingSpark(f"{java} says no version ({said}): {NEEDED}")
    if int(version[1]) < JAVA_LEAST:
        return MissingSpark(f"{java} is {said}: {NEEDED}")
    return None


def _java() -> str | None:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java")
    java = Path(home) / "bin" / "java"
    return str(java) if java.is_file() else None
