"""What the wheel is made of is told whole, and a check of its crates that saw nothing is no green one."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging" / "supply_chain.py"
FOUND, UNFIT = 1, 2
SECONDS = 300
"""Ends what hangs: cargo waits for builds of others that have its cache of packages."""
pytestmark = pytest.mark.timeout(2 * SECONDS)

ADVISORY = """```toml
[advisory]
id = "RUSTSEC-2099-0001"
package = "crc32fast"
date = "2026-01-01"

[versions]
patched = [">= 99.0.0"]
```

# A doctored advisory

It says that every version of this crate is faulty.
"""


class Checked(NamedTuple):
    code: int
    stdout: str
    stderr: str


Check = Callable[..., Checked]


@cache
def main() -> Callable[[list[str]], int]:
    """The command. It asks once which crates are compiled for any of three hundred targets, since no test changes that
    and the answer takes most of a check. `make supply-chain` runs it as a process.
    """
    spec = importlib.util.spec_from_file_location("supply_chain", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    module.compiled = cache(module.compiled)
    run: Callable[[list[str]], int] = module.main
    return run


@pytest.fixture
def check(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    def checked(*arguments: str, database: Path | None = None) -> Checked:
        monkeypatch.delenv("ADVISORY_DATABASE", raising=False)
        if database is not None:
            monkeypatch.setenv("ADVISORY_DATABASE", str(database))
        code = main()(["check", *arguments])
        return Checked(code, *capfd.readouterr())

    return checked


def billed(wheel: Path) -> int:
    command = [sys.executable, str(SCRIPT), "bill", str(wheel)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=SECONDS).returncode


def test_every_crate_has_a_licence_that_is_allowed_and_comes_from_the_registry(check: Check) -> None:
    done = check()
    assert done.code == 0, done.stderr
    assert "nothing refused" in done.stdout
    assert "advisories: NOT RUN" in done.stdout, "there is no database of them"


def test_a_licence_that_is_not_allowed_is_found_and_named(check: Check, tmp_path: Path) -> None:
    text = (ROOT / "deny.toml").read_text()
    (tmp_path / "deny.toml").write_text(text.replace('"BSD-3-Clause", ', ""))
    done = check("--config", str(tmp_path / "deny.toml"))
    assert done.code == FOUND
    assert "rejected" in done.stderr
    assert "subtle" in done.stderr


def test_a_check_that_leaves_crates_out_does_not_pass(check: Check, tmp_path: Path) -> None:
    text = (ROOT / "deny.toml").read_text()
    (tmp_path / "deny.toml").write_text(text.replace("include-dev = true", "include-dev = false"))
    done = check("--config", str(tmp_path / "deny.toml"))
    assert done.code == UNFIT
    assert "proptest" in done.stderr


def test_a_known_fault_of_a_crate_is_found_and_named(check: Check, tmp_path: Path) -> None:
    (tmp_path / "crates" / "crc32fast").mkdir(parents=True)
    (tmp_path / "crates" / "crc32fast" / "RUSTSEC-2099-0001.md").write_text(ADVISORY)
    done = check(database=tmp_path)
    assert done.code == FOUND
    assert "RUSTSEC-2099-0001" in done.stderr
    assert "crc32fast" in done.stderr


@pytest.mark.parametrize("made", [True, False])
def test_a_database_without_advisories_does_not_pass(check: Check, tmp_path: Path, *, made: bool) -> None:
    if made:
        (tmp_path / "crates").mkdir()
    done = check(database=tmp_path)
    assert done.code == UNFIT
    assert "nothing refused" in done.stdout


def test_the_bill_of_materials_names_what_is_in_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "delaymq-0.1.0-any.whl"
    wheel.write_bytes(b"a wheel")
    assert billed(wheel) == 0
    bill = json.loads((tmp_path / "delaymq-0.1.0-any.cdx.json").read_text())
    whole = bill["metadata"]["component"]
    assert whole["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]
    with (ROOT / "Cargo.lock").open("rb") as file:
        packages = tomllib.load(file)["package"]
    locked = {f"pkg:cargo/{one['name']}@{one['version']}": one.get("checksum") for one in packages}
    components = {one["bom-ref"]: one for one in bill["components"]}
    assert components.keys() <= locked.keys()
    for link, one in components.items():
        assert [found["content"] for found in one.get("hashes", [])] == [locked[link]] * (locked[link] is not None)
        assert one["licenses"]
    linked = {one["name"] for one in components.values() if one["scope"] == "required"}
    assert {"delaymq-core", "delaymq-engine", "delaymq-server", "pyo3", "tokio", "rustix", "crc32fast"} <= linked
    assert not linked & {"proptest", "criterion", "syn", "pyo3-macros", "delaymq-simulation"}
    assert {edge["ref"] for edge in bill["dependencies"]} == {whole["bom-ref"], *components}
    assert str(ROOT) not in json.dumps(bill)


def test_the_bill_of_one_wheel_is_the_same_each_time(tmp_path: Path) -> None:
    wheel = tmp_path / "delaymq-0.1.0-any.whl"
    wheel.write_bytes(b"a wheel")
    found = set()
    for _ in range(2):
        assert billed(wheel) == 0
        found.add((tmp_path / "delaymq-0.1.0-any.cdx.json").read_bytes())
    assert len(found) == 1


def test_a_wheel_that_was_built_has_its_bill_beside_it() -> None:
    built = os.environ.get("DELAYMQ_WHEEL")
    if built is None:
        pytest.skip("needs DELAYMQ_WHEEL, the wheel that was built: `make test-python` gives it")
    wheel = ROOT / built
    bill = json.loads(wheel.with_suffix(".cdx.json").read_text())
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
