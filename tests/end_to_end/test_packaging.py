"""packaging/: the unit and the Dockerfile name what there is, as far as a machine with neither can tell."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from delaymq.cli import parser
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.settings import KEYS, load
from delaymq.cli.verbs.serve import HTTP_PORT, PORT

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
UNIT = (PACKAGING / "delaymq.service").read_text(encoding="utf-8")
CONFIGURATION = (PACKAGING / "delaymq.toml").read_text(encoding="utf-8")
DOCKERFILE = (PACKAGING / "Dockerfile").read_text(encoding="utf-8")


def of_unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def of_image(instruction: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", DOCKERFILE)
    return re.findall(rf"^{instruction} (.*)$", joined, re.MULTILINE)


def test_the_unit_starts_what_there_is_and_knows_its_exit_codes() -> None:
    [line] = of_unit("ExecStart")
    command, *arguments = shlex.split(line)
    assert Path(command).name == "delaymq"
    chosen = parser().parse_args(arguments)
    assert (chosen.verb, chosen.log, chosen.config) == ("serve", "json", Path("/etc/delaymq/delaymq.toml"))
    assert of_unit("Type") == ["notify"]
    [never] = of_unit("RestartPreventExitStatus")
    assert set(map(int, never.split())) == {Exit.USAGE, Exit.DAMAGED}
    assert of_unit("SuccessExitStatus") == [str(int(Exit.PART))]
    assert of_unit("KillSignal") == ["SIGTERM"]


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    unit = tmp_path / "delaymq.service"

    def verified(text: str) -> str:
        unit.write_text(text, encoding="utf-8")
        ended = subprocess.run(
            [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False, timeout=60
        )
        return ended.stdout + ended.stderr

    # It looks for the command, which here is another one.
    there = UNIT.replace("/usr/local/bin/delaymq", sys.executable)
    if "Failed to" in verified(there) and "delaymq.service" not in verified(there):
        pytest.skip("systemd-analyze does not run here")
    assert verified(there) == ""
    assert "ProtectHom" in verified(there.replace("ProtectHome", "ProtectHom")), "it would complain"


def test_the_configuration_is_read_as_it_is_and_with_what_it_suggests(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    settings = load(file, {}, [])
    assert (settings["server.port"], settings["http.port"]) == (PORT, HTTP_PORT)
    [state] = of_unit("StateDirectory")
    assert Path(settings["store.path"]).parent == Path("/var/lib") / state
    suggested = re.sub(r"^# (\w+ = )", r"\1", CONFIGURATION, flags=re.MULTILINE)
    assert suggested != CONFIGURATION
    file.write_text(suggested.replace("sha256:…", "sha256:" + "0" * 64), encoding="utf-8")
    assert {"server.token_hash", "server.advertised_address", "server.qmq_clients_from"} <= set(load(file, {}, []))


def test_the_image_is_pinned_has_no_root_and_serves_on_the_ports_it_names() -> None:
    images = [line.split()[0] for line in of_image("FROM")]
    assert len(images) == 2
    assert all(re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-[a-z-]+", image) for image in images), images
    assert of_image("USER")[-1] == "10001"
    assert of_image("EXPOSE") == [f"{PORT} {HTTP_PORT}"]
    assert not of_image("ADD")
    [entry], [command] = of_image("ENTRYPOINT"), of_image("CMD")
    assert parser().parse_args([*json.loads(entry)[1:], *json.loads(command)]).verb == "serve"
    [variables] = of_image("ENV")
    given = dict(word.split("=", 1) for word in variables.split())
    assert set(given) <= {key.variable for key in KEYS}
    settings = load(None, given, [])
    assert [Path(settings["store.path"]).parent] == [Path(volume) for volume in of_image("VOLUME")]
    [check] = of_image("HEALTHCHECK")
    assert f"127.0.0.1:{HTTP_PORT}/health" in check


def test_the_image_is_built_of_what_the_project_has() -> None:
    kept = [line[1:] for line in (PACKAGING / "Dockerfile.dockerignore").read_text("utf-8").splitlines() if "!" in line]
    assert all((ROOT / path).exists() for path in kept), kept
    members = re.findall(r'"([\w/]+)"', re.findall(r"members = \[(.*)\]", (ROOT / "Cargo.toml").read_text("utf-8"))[0])
    assert all(any(member == path or member.startswith(path + "/") for path in kept) for member in members)
    lists = [line.split()[0] for line in of_image("COPY") if not line.startswith("--from")]
    assert all((ROOT / path).exists() for path in lists)
