"""Tests that start Spark: whether they can, and a Java that starts soon rather than runs fast in the long run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from commanding import uncounted
from forked import ALONE

QUICK_SPARK = Path(__file__).parent / "quick_spark"
"""Settings of every driver that is started, and what the daemons of its workers import."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
DRIVER_SECONDS = 300
"""How long a test waits for a driver of Spark that it starts. Next to two busy processes, one took two minutes."""
DRIVER_TIMEOUT_SECONDS = 2 * DRIVER_SECONDS + 100
"""The timeout of a test that starts such a driver."""

SLOW_WORKER = "Python worker failed to connect back"
"""The error of a driver whose worker took more than ten seconds to connect, a limit of Spark that has no setting."""


def require_java_here() -> None:
    """Passes over a test where there is no Java, unless `.ci/run` says that there is: then it fails."""
    from delaymq.spark.environment import MissingSpark, require_java  # noqa: PLC0415 - imports PySpark

    try:
        require_java()
    except MissingSpark as missing:
        if os.environ.get("TESTS_OF_JAVA_MUST_RUN"):
            pytest.fail(f"where Java 17 is, .ci/run must not pass over this: {missing}", pytrace=False)
        pytest.skip(str(missing))


def quick_spark(*imported: Path) -> dict[str, str]:
    """What is changed in the environment of a driver, so that its workers start soon; and where they import from."""
    paths = [str(QUICK_SPARK), *map(str, imported), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "SPARK_CONF_DIR": str(QUICK_SPARK), **ALONE}


def quick_java(changed: dict[str, str] | None = None) -> dict[str, str]:
    """What is changed in the environment of a process that starts Java, so that it is one which starts soon."""
    # The name of the machine may stand for another of its addresses, on which nothing is to listen.
    return {"JDK_JAVA_OPTIONS": QUICK_JAVA, "SPARK_LOCAL_IP": "127.0.0.1", **quick_spark(), **(changed or {})}


def kill_driver_when(
    is_there: Callable[[], bool],
    command: Sequence[str],
    said: Path,
    environment: Mapping[str, str],
    poll_s: float = 0.02,
) -> None:
    """Starts a driver of Spark, waits until something is there, and kills the driver and all its processes.

    A driver that Spark ended because the machine is busy (`SLOW_WORKER`) is started again.
    """
    end = time.monotonic() + DRIVER_SECONDS
    is_killed = False
    while not is_killed:
        with (
            said.open("wb") as output,
            subprocess.Popen(
                command, start_new_session=True, stdout=output, stderr=output, env=uncounted(environment)
            ) as process,
        ):
            try:
                while not (is_killed := is_there()) and process.poll() is None:
                    assert time.monotonic() < end, said.read_text()
                    time.sleep(poll_s)
            finally:
                with suppress(ProcessLookupError):  # all of it has ended
                    os.killpg(process.pid, signal.SIGKILL)
        assert is_killed or SLOW_WORKER in said.read_text(), said.read_text()
