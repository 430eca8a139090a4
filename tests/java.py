"""Tests that start Spark: whether they can, and a Java that starts soon rather than runs fast in the long run."""

from __future__ import annotations

import os

import pytest

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER_SECONDS = 300
"""How long a test waits for a driver of Spark that it starts. Next to two busy processes, one took two minutes."""
DRIVER_TIMEOUT_SECONDS = 2 * DRIVER_SECONDS + 100
"""The timeout of a test that starts such a driver."""


def require_java_here() -> None:
    """Passes over a test where there is no Java, unless `.ci/run` says that there is: then it fails."""
    from delaymq.spark.environment import MissingSpark, require_java  # noqa: PLC0415 - imports PySpark

    try:
        require_java()
    except MissingSpark as missing:
        if os.environ.get("TESTS_OF_JAVA_MUST_RUN"):
            pytest.fail(f"where Java 17 is, .ci/run must not pass over this: {missing}", pytrace=False)
        pytest.skip(str(missing))


def quick_java(changed: dict[str, str] | None = None) -> dict[str, str]:
    """What is changed in the environment of a process that starts Java, so that it is one which starts soon."""
    # The name of the machine may stand for another of its addresses, on which nothing is to listen.
    return {"JDK_JAVA_OPTIONS": QUICK_JAVA, "SPARK_LOCAL_IP": "127.0.0.1", **(changed or {})}
