"""What is not there is said in one line."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import DelaymqError
from delaymq.spark import MissingSpark
from delaymq.spark.environment import require_java, require_spark, unusable_java
from java import QUICK_SPARK


def test_workers_have_what_their_daemon_imported(spark: Any) -> None:
    def found(_: int) -> tuple[str, bool]:
        return str(sys.modules["sitecustomize"].__file__), "delaymq.spark.write" in sys.modules

    [found_here] = spark.sparkContext.parallelize([0], 1).map(found).collect()
    assert found_here == (str(QUICK_SPARK / "sitecustomize.py"), True)


def test_packages_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("pyspark", "pandas") else found(name)
    )
    with pytest.raises(MissingSpark, match=r'^pyspark, pandas not installed: pip install "delaymq\[spark\]"$'):
        require_spark()


def test_no_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingSpark, match=r"^no java was found: Spark needs Java 17"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingSpark, match=r"there is no bin/java in it") as caught:
        require_java()
    assert isinstance(caught.value, DelaymqError | ImportError)
    java(tmp_path, "exit 1")
    require_java()


def java(home: Path, script: str) -> None:
    """A Java that does this."""
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("""echo 'openjdk version "11.0.2" 2019-01-15' >&2""", 'java is openjdk version "11.0.2" 2019-01-15'),
        ("""echo 'java version "1.8.0_51"' >&2""", 'java is java version "1.8.0_51"'),
        ("echo broken >&2; exit 1", r"says no version \(broken\)"),
    ],
)
def test_a_java_that_cannot_start_spark_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java(tmp_path, script)
    told = unusable_java()
    assert isinstance(told, MissingSpark)
    assert re.search(words + r".*: Spark needs Java 17 or later$", str(told))
    (tmp_path / "bin" / "java").write_bytes(b"no program")
    assert "does not run" in str(unusable_java())
    java(tmp_path, """echo 'openjdk version "21.0.1" 2023-10-17' >&2""")
    assert unusable_java() is None, "it is something else"


def test_a_verb_says_in_one_line_that_java_is_too_old(tmp_path: Path) -> None:
    java(tmp_path, """echo 'openjdk version "11.0.2" 2019-01-15' >&2; [ "$1" = -version ]""")
    with delaymq.open(tmp_path / "store") as store:
        store.publish("orders", b"one")
    verb = [sys.executable, "-m", "delaymq", "spark", "audit", "--store", str(tmp_path / "store")]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(verb, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.stderr.count("\n") == 1, done.stderr
    assert 'is openjdk version "11.0.2"' in done.stderr
    assert (done.returncode, done.stdout) == (3, "")


WITHOUT_PYSPARK = """
import sys


class Gone:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Gone)
"""


@pytest.mark.parametrize(
    "verb",
    [
        ("audit", "--store", "store"),
        ("archive", "--parquet", "archive", "--store", "store"),
        ("forecast", "--store", "store"),
        ("rebuild", "--store", "store"),
        ("load", "due.csv", "--job", "due", "--store", "store"),
    ],
    ids=lambda verb: verb[0],
)
def test_each_verb_says_in_one_line_that_pyspark_is_not_there(tmp_path: Path, verb: tuple[str, ...]) -> None:
    delaymq.open(tmp_path / "store").close()
    (tmp_path / "due.csv").write_text("subject,due,body\n")
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_PYSPARK)
    done = subprocess.run(
        [sys.executable, "-m", "delaymq", "spark", *verb],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stderr.count("\n") == 1, done.stderr
    assert 'pyspark not installed: pip install "delaymq[spark]"' in done.stderr
    assert (done.returncode, done.stdout) == (3, "")
    assert not (tmp_path / "archive").exists()


def test_nothing_else_of_the_package_imports_pyspark() -> None:
    said = "import sys, delaymq, delaymq.tables, delaymq.cli; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], check=False, timeout=60).returncode == 0
