"""What Spark needs that pip does not bring, and how its absence is told: in one line."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from delaymq.errors import DelaymqError

__all__ = ["MissingSpark", "require_connect", "require_java", "require_spark"]

PACKAGES = ("pyspark", "pyarrow", "pandas")
CONNECT_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard")


class MissingSpark(DelaymqError, ImportError):  # noqa: N818 - a name says what happened, as all of delaymq's do
    """PySpark, or the Java that it runs on, is not there."""


def require_spark() -> None:
    """Looks for the packages.

    Raises:
        MissingSpark: One of them is not installed.
    """
    _require(PACKAGES, "spark")


def require_connect() -> None:
    """Looks for the packages that Spark Connect needs beside those of Spark.

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
    except ModuleNotFoundError:  # the package around it
        return False


def require_java() -> None:
    """Looks for a Java where Spark does.

    Raises:
        MissingSpark: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        if not (Path(home) / "bin" / "java").is_file():
            raise MissingSpark(f"JAVA_HOME is {home}, and there is no bin/java in it: Spark needs Java 17 or later")
    elif shutil.which("java") is None:
        raise MissingSpark("no java was found: Spark needs Java 17 or later, on the PATH or by JAVA_HOME")
