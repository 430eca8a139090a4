"""What is not there is said in one line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from delaymq import DelaymqError
from delaymq.spark import MissingSpark
from delaymq.spark.environment import require_java, require_spark


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
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    require_java()


def test_nothing_else_of_the_package_imports_pyspark() -> None:
    said = "import sys, delaymq, delaymq.tables, delaymq.cli; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], check=False, timeout=60).returncode == 0
