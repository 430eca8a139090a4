"""The wheel in an environment where nothing else is, and a build that nobody should ship."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from snippets import run_page

ROOT = Path(__file__).resolve().parents[2]


def newest_wheel() -> Path | None:
    """The wheel that `DELAYMQ_WHEEL` names, or the one that `make` built last."""
    if named := os.environ.get("DELAYMQ_WHEEL"):
        return ROOT / named
    built = list((ROOT / "target" / "wheels").glob("delaymq-*.whl"))
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = newest_wheel()
    if found is None:
        pytest.skip("no wheel is built: `make test-python` builds one")
    return found


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and nothing else, not even pip."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    subprocess.run([*install, "--disable-pip-version-check", str(wheel)], check=True, timeout=100)
    return python


def said(command: list[str | Path], folder: Path) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_what_a_new_user_reads_runs_with_nothing_else_installed(page: str, empty: Path, tmp_path: Path) -> None:
    wrong = run_page((ROOT / page).read_text("utf-8"), tmp_path, python=str(empty))
    assert wrong is None, wrong


def test_nothing_else_is_needed_and_nothing_else_came(empty: Path, tmp_path: Path) -> None:
    code = "from importlib.metadata import distributions as d; print(*sorted(one.name for one in d()))"
    assert said([empty, "-c", code], tmp_path).split() == ["delaymq"]
    code = "import delaymq.testing, delaymq.async_store, sys; print(delaymq.__file__)"
    assert "site-packages" in said([empty, "-W", "error", "-c", code], tmp_path)


def test_the_command_is_there(empty: Path, tmp_path: Path) -> None:
    assert "usage: delaymq" in said([empty.parent / "delaymq", "--help"], tmp_path)
    assert "usage: delaymq" in said([empty, "-m", "delaymq", "--help"], tmp_path)


def test_the_wheel_is_one_for_all_pythons_and_typed(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"delaymq/py.typed", "delaymq/_core.pyi", "pytest_delaymq/__init__.py", "pytest_delaymq/py.typed"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.split("/")[0] in {"tests", "rust"}]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="a build without optimisation needs Rust")
def test_a_build_without_optimisation_warns(tmp_path: Path) -> None:
    target = ROOT / "target" / "unoptimised"
    command = ["cargo", "build", "--quiet", "--locked", "-p", "delaymq-binding", "--target-dir", str(target)]
    chosen = {**os.environ, "PYO3_PYTHON": sys.executable, "PYO3_BUILD_EXTENSION_MODULE": "1"}
    subprocess.run(command, cwd=ROOT, check=True, timeout=380, env=chosen)
    package = shutil.copytree(ROOT / "python", tmp_path / "python", ignore=shutil.ignore_patterns("*.so"))
    built = target / "debug" / ("lib_core.dylib" if sys.platform == "darwin" else "lib_core.so")
    shutil.copy(built, package / "delaymq" / "_core.abi3.so")
    code = f"import sys; sys.path.insert(0, {str(package)!r}); import delaymq; print(delaymq.__file__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert str(package) in ended.stdout
    assert "RuntimeWarning: delaymq was built without optimisation" in ended.stderr
    assert "RuntimeWarning" not in said([sys.executable, "-c", "import delaymq"], tmp_path)
