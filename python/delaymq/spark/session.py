"""Spark sessions: a local one, or one of a server of Spark Connect."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from delaymq.spark.environment import MissingSpark, require_connect, require_java, unusable_java

NO_JAVA = "JAVA_GATEWAY_EXITED"
LOCAL = {
    # The host name may resolve to another address.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Defaults of `local_session`."""


def local_session(master: str = "local[*]", **settings: str) -> SparkSession:
    """A local Spark session: times in UTC, and nothing listens on an external address.

    Args:
        master: How many cores it uses, as Spark writes it.
        settings: Settings of Spark, with `__` for each dot: `spark__driver__memory="2g"`.

    Raises:
        MissingSpark: Java is missing, too old, or does not run.
    """
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("delaymq")
    for name, value in (LOCAL | {name.replace("__", "."): value for name, value in settings.items()}).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        why = unusable_java() if error.getCondition() == NO_JAVA else None
        if why is None:
            raise
        raise why from error


def session_at(master: str) -> SparkSession:
    """A session for `master`: of the server of Spark Connect at `sc://host:port`, or else a local one.

    Raises:
        MissingSpark: Java is missing, or, for a server, the packages of Spark Connect are.
    """
    if not master.startswith("sc://"):
        return local_session(master)
    require_connect()
    return SparkSession.builder.remote(master).getOrCreate()


@contextmanager
def silenced() -> Iterator[None]:
    """Hides the output of a Java that is started in this block, for as long as it runs.

    Java logs its settings even if logging is off. If the block fails, the output is shown, unless the error names the
    missing part.
    """
    with tempfile.TemporaryFile() as said:
        sys.stdout.flush()
        sys.stderr.flush()
        before = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in before:
                os.dup2(said.fileno(), number)
            yield
        except MissingSpark:
            raise
        except Exception:
            said.seek(0)
            os.write(before[1][1], said.read())
            raise
        finally:
            for number, kept in before:
                os.dup2(kept, number)
                os.close(kept)
