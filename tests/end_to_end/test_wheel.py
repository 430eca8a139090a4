"""The wheels in an environment where nothing else is, and a build that nobody should ship."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import delaymq
from commanding import ANY_PORTS, environment
from snippets import run_page

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "target" / "planted" / "packages"
"""The package as the harnesses use it, compiled with debug assertions as all tests of Rust are."""

VARIABLES = {"dist": "DELAYMQ_WHEEL", "sources": "DELAYMQ_WHEEL_FROM_SOURCES"}
"""Which wheel is meant; `make test-python` sets the first, `make dist-test` both."""


def named_wheel(which: str) -> Path:
    """The wheel that a variable names, or the one in `dist/`."""
    if named := os.environ.get(VARIABLES[which]):
        return ROOT / named
    built = list((ROOT / "dist").glob("delaymq-*.whl")) if which == "dist" else []
    if not built:
        pytest.skip(f"{VARIABLES[which]} is not set: `make dist-test` builds all wheels")
    return built[0]


@pytest.fixture(scope="module", params=VARIABLES)
def wheel(request: pytest.FixtureRequest) -> Path:
    return named_wheel(request.param)


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
    code = "import delaymq.testing, delaymq._asyncio.store, sys; print(delaymq.__file__)"
    assert "site-packages" in said([empty, "-W", "error", "-c", code], tmp_path)


def test_the_command_is_there(empty: Path, tmp_path: Path) -> None:
    assert "usage: delaymq" in said([empty.parent / "delaymq", "--help"], tmp_path)
    assert "usage: delaymq" in said([empty, "-m", "delaymq", "--help"], tmp_path)


def test_the_command_serves_publishes_and_consumes(empty: Path, tmp_path: Path) -> None:
    delaymq_of_wheel = empty.parent / "delaymq"
    serve: list[str | Path] = [delaymq_of_wheel, "serve", "--store", tmp_path / "store", "--json"]
    with subprocess.Popen(
        [*serve, *ANY_PORTS], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as server:
        assert server.stdout is not None
        try:
            place: list[str | Path] = ["--server", f"delaymq://{json.loads(server.stdout.readline())['address']}"]
            taking = ["--group", "billing", "--count", "1"]
            published = said([delaymq_of_wheel, "publish", "order", "the body", "--delay", "0s", *place], tmp_path)
            assert published.startswith("dmq1-")
            assert said([delaymq_of_wheel, "consume", "order", *taking, *place], tmp_path) == "the body\n"
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()


def test_the_wheel_is_one_for_all_pythons_and_typed(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"delaymq/py.typed", "delaymq/_core.pyi", "pytest_delaymq/__init__.py", "pytest_delaymq/py.typed"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.split("/")[0] in {"tests", "rust"}]


def test_the_sources_make_the_wheel_that_is_in_dist() -> None:
    """The same files, and the same bytes in each but what is compiled and what names the system it was compiled for."""
    with zipfile.ZipFile(named_wheel("dist")) as ours, zipfile.ZipFile(named_wheel("sources")) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
        written = [name for name in ours.namelist() if not name.endswith((".so", "/RECORD", "/WHEEL"))]
        assert len(written) > 50
        assert [name for name in written if ours.read(name) != theirs.read(name)] == []


@pytest.mark.skipif(not os.environ.get(VARIABLES["dist"]), reason="nobody says that a wheel is installed here")
def test_what_all_tests_use_is_the_wheel_that_is_in_dist() -> None:
    """Byte for byte, and not the folder of the sources."""
    installed = Path(delaymq.__file__).parents[1]
    assert not installed.is_relative_to(ROOT / "python")
    with zipfile.ZipFile(named_wheel("dist")) as archive:
        files = [name for name in archive.namelist() if name.startswith(("delaymq/", "pytest_delaymq/"))]
        assert "delaymq/_core.abi3.so" in files
        assert [name for name in files if (installed / name).read_bytes() != archive.read(name)] == []


@pytest.mark.skipif(not os.environ.get(VARIABLES["dist"]), reason="`make test-python` builds the planted package")
def test_a_build_that_nobody_should_ship_warns(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(PLANTED)!r}); import delaymq; print(delaymq.__file__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert str(PLANTED) in ended.stdout
    assert "RuntimeWarning: delaymq was built without optimisation" in ended.stderr
    assert "RuntimeWarning" not in said([sys.executable, "-c", "import delaymq"], tmp_path)
