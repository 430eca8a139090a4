"""packaging/cluster: what it describes runs, with real nodes and real members of etcd under the names of its machines.

There is neither Docker nor systemd here. The processes get the variables, the files and the paths that a container or a
unit would get, each on a network of its own; images, and what Docker and systemd do with the rest, are only read.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from commanding import arguments_of, environment
from delaymq.cli.input.settings import KEYS
from delaymq.cli.verbs.serve import HTTP_PORT, PORT
from groups import PATIENCE_SECONDS, TOKEN, Group, await_true, must_have_etcd, token_hash
from namespaces import Network
from serving import Served

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CLUSTER = PACKAGING / "cluster"
COMPOSE: dict[str, Any] = yaml.safe_load((CLUSTER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES, MEMBERS = ("node1", "node2", "node3"), ("etcd1", "etcd2", "etcd3")
MACHINES = ("a.example", "b.example", "c.example")
Settings = dict[str, tuple[list[str], dict[str, str]]]
"""The arguments and the variables of each node."""
HASHES = {"DELAYMQ_TOKEN_HASH": token_hash(TOKEN), "DELAYMQ_ADMIN_TOKEN_HASH": token_hash(TOKEN)}
UNIT = (PACKAGING / "delaymq.service").read_text(encoding="utf-8")
ETCD_UNIT = "[Service]\nType=notify\nExecStart=/usr/bin/etcd\n"


def in_place(text: str, places: Mapping[str, str]) -> str:
    """The text with other paths or names."""
    longest_first = sorted(places, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: places[found[0]], text)


def volumes_of(service: str, folder: Path) -> dict[str, str]:
    """Where the paths of a container are on this machine."""
    places = {}
    for volume in SERVICES[service]["volumes"]:
        source, target = volume.split(":")[:2]
        places[target] = str(CLUSTER / source if source.startswith("./") else folder / source)
    return places


def variables_of(service: str, places: Mapping[str, str]) -> dict[str, str]:
    """The variables of a container, with what Docker reads in `.env`, and its paths as they are on this machine."""
    known = {f"${{{name}": found for name, found in HASHES.items()}
    given = {name: re.sub(r":\?[^}]*\}$", "", value) for name, value in _environment(service).items()}
    return {name: in_place(value, {**known, **places}) for name, value in given.items()}


def _environment(service: str) -> dict[str, str]:
    return dict(SERVICES[service]["environment"])


def of_image() -> dict[str, str]:
    """The variables of the image."""
    joined = re.sub(r"\\\n\s*", "", (PACKAGING / "Dockerfile").read_text(encoding="utf-8"))
    return dict(word.split("=", 1) for word in re.findall(r"^ENV (.*)$", joined, re.MULTILINE)[0].split())


def checked(*words: str | Path, **variables: str) -> dict[str, Any]:
    """The settings, as `delaymq config check` reads them."""
    whole = arguments_of("config", "check", *map(str, words), "--json")
    ended = subprocess.run(
        whole, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment(**variables)
    )
    assert ended.returncode == 0, ended.stderr
    return {name: setting["value"] for name, setting in json.loads(ended.stdout).items()}


@pytest.mark.parametrize("node", NODES)
def test_the_variables_of_a_node_in_the_compose_file_are_settings(node: str) -> None:
    variables = variables_of(node, {})
    assert set(variables) <= {key.variable for key in KEYS}
    settings = checked(**{**of_image(), **variables})
    assert settings["server.advertised_address"] == f"{node}:{PORT}"
    port = settings["cluster.listen"].rpartition(":")[2]
    assert settings["cluster.peers"] == [f"{other}:{port}" for other in NODES if other != node]
    assert settings["cluster.etcd"] == [_environment(member)["ETCD_ADVERTISE_CLIENT_URLS"] for member in MEMBERS]
    assert Path(settings["store.path"]).parent == Path("/var/lib/delaymq")


def test_the_compose_file_uses_what_it_declares() -> None:
    assert set(SERVICES) == {*NODES, *MEMBERS, "certificates"}
    named = {volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]}
    assert {name for name in named if not name.startswith("./")} == set(COMPOSE["volumes"])
    assert all((CLUSTER / name).exists() for name in named if name.startswith("./"))
    for node in NODES:
        assert set(SERVICES[node]["depends_on"]) == {*MEMBERS, "certificates"}
        assert SERVICES[node]["image"] == SERVICES["certificates"]["image"] == "delaymq"
    assert all(re.fullmatch(r"[\w./]+/etcd:v3\.\d+\.\d+", SERVICES[member]["image"]) for member in MEMBERS)


@pytest.mark.parametrize(
    ("name", "text", "part"), [("delaymq.service", UNIT, "delaymq.conf"), ("etcd.service", ETCD_UNIT, "etcd.conf")]
)
def test_systemd_understands_what_is_put_beside_the_units(tmp_path: Path, name: str, text: str, part: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    unit, beside = tmp_path / name, tmp_path / f"{name}.d" / "part.conf"
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.MULTILINE))
    beside.parent.mkdir()

    def verified(words: str) -> str:
        beside.write_text(words, encoding="utf-8")
        ended = subprocess.run(
            [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False, timeout=60
        )
        return ended.stdout + ended.stderr

    written = (CLUSTER / part).read_text(encoding="utf-8")
    if "Failed to" in verified("") and name not in verified(""):
        pytest.skip("systemd-analyze does not run here")
    assert verified(written) == ""
    assert "StartLimi" in verified(written.replace("StartLimitIntervalSec", "StartLimi")), "it would complain"


class Machines(Group):
    """Nodes whose settings others wrote, each on a machine of its own, and members of etcd, found by name."""

    def __init__(self, folder: Path, network: Network, nodes: Settings) -> None:
        self.folder, self.network, self.places = folder, network, list(nodes)
        self.hosts = folder / "hosts"
        lines = [f"{address} {place}" for place, address in network.addresses.items()]
        self.hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN)
        ports = [f"server.port={PORT}", f"http.port={HTTP_PORT}"]
        words = [word for pair in ports for word in ("--set", pair)]
        self.settings = [tuple(arguments) for arguments, _ in nodes.values()]
        self.variables = [variables for _, variables in nodes.values()]
        self.nodes = [
            Served(folder / f"store-{place}", *words, *arguments, around=self.machine, **variables)
            for place, (arguments, variables) in nodes.items()
        ]
        self.members: list[subprocess.Popen[bytes]] = []

    @property
    def machine(self) -> list[str]:
        """A command that becomes another one, which finds the machines by their names."""
        mount = 'mount --make-rprivate / && mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, str(self.hosts)]

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        for member in self.members:
            member.kill()
            member.wait()

    def start_etcd(self, place: str, variables: Mapping[str, str]) -> None:
        with self.network.inside(place), (self.folder / f"etcd-{place}.said").open("wb") as said:
            whole = [*self.machine, "etcd"]
            self.members.append(subprocess.Popen(whole, env=environment(**variables), stdout=said, stderr=said))

    def ran(self, place: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a verb on a machine."""
        with self.network.inside(place):
            return subprocess.run(
                [*self.machine, *arguments_of(*words)],
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
                env=environment(**variables),
            )

    def create_when_etcd_answers(self) -> None:
        words = ["cluster", "create", "--store", str(self.nodes[0].folder), *self.settings[0]]

        def is_made() -> bool:
            ended = self.ran(self.places[0], *words, **self.variables[0])
            assert ended.returncode in (0, 8), ended.stderr
            return ended.returncode == 0

        await_true(is_made, "the group is made")

    def start(self) -> None:
        self.create_when_etcd_answers()
        for node in self.nodes:
            self.start_node(node)
        self.await_whole()

    def start_node(self, node: Served) -> None:
        with self.network.inside(self.places[self.nodes.index(node)]):
            node.start()

    def status(self, node: Served) -> dict[str, Any]:
        with self.network.inside(self.places[self.nodes.index(node)]):
            return super().status(node)

    def live_through_a_lost_machine(self) -> None:
        """A client finds the group by its names, also while the primary and a member of etcd are gone."""
        url = "delaymq://" + ",".join(f"{place}:{PORT}" for place in self.places)
        where = ("--server", url, "--token-file", str(self.token_file))

        def is_passed_on(name: str) -> bool:
            stored = self.ran("client", "publish", "order", name, "--message-id", name, "--deduplicate", *where)
            assert stored.returncode in (0, 3, 8), stored.stderr
            return stored.returncode == 0

        await_true(lambda: is_passed_on("one"), "a message is stored")
        first = self.await_primary()
        first.kill()
        self.members[0].kill()
        self.await_primary(other_than=first)
        await_true(lambda: is_passed_on("two"), "a message is stored by another node")
        came = self.ran("client", "consume", "order", "--group", "billing", "--count", "2", *where)
        assert came.returncode == 0, came.stderr
        assert {"one", "two"} <= set(re.findall(r"\b(one|two)\b", came.stdout))
        self.start_node(first)
        self.await_whole()


@contextmanager
def network_of(*places: str) -> Iterator[Network]:
    must_have_etcd()
    with Network([*places, "client"]) as network:
        yield network


def test_what_the_compose_file_describes_runs_and_outlives_a_machine(tmp_path: Path) -> None:
    maker = SERVICES["certificates"]
    words = [in_place(word, volumes_of("certificates", tmp_path)) for word in [*maker["entrypoint"], *maker["command"]]]
    subprocess.run(words, check=True, timeout=PATIENCE_SECONDS)
    given: Settings = {node: ([], {**of_image(), **variables_of(node, volumes_of(node, tmp_path))}) for node in NODES}
    with network_of(*NODES, *MEMBERS) as network, Machines(tmp_path, network, given) as group:
        for member in MEMBERS:
            group.start_etcd(member, variables_of(member, volumes_of(member, tmp_path)))
        group.start()
        group.live_through_a_lost_machine()


def of_machine(file: str, machine: str) -> str:
    """A file as its first lines say: the name of the machine is exchanged."""
    text = (CLUSTER / file).read_text(encoding="utf-8")
    if file == "delaymq.toml":
        first = MACHINES[0]
        return in_place(text, {first: machine, machine: first, "sha256:…": token_hash(TOKEN)})
    lines = text.replace("ETCD_NAME=a", f"ETCD_NAME={machine[0]}").splitlines()
    return "\n".join(line.replace(MACHINES[0], machine) if "ADVERTISE" in line else line for line in lines)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_settings_of_a_machine_are_read(tmp_path: Path, machine: str) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text(of_machine("delaymq.toml", machine), encoding="utf-8")
    settings = checked(file)
    assert settings["server.advertised_address"] == f"{machine}:{PORT}"
    assert sorted(settings["cluster.peers"]) == [f"{other}:20811" for other in MACHINES if other != machine]
    assert sorted(settings["cluster.etcd"]) == [f"https://{other}:2379" for other in MACHINES]


def test_what_the_files_of_the_units_describe_runs_and_outlives_a_machine(tmp_path: Path) -> None:
    certificates = tmp_path / "certificates"
    subprocess.run(["sh", CLUSTER / "certificates.sh", certificates, *MACHINES], check=True, timeout=PATIENCE_SECONDS)
    nodes: Settings = {}
    members = {}
    for machine in MACHINES:
        places = {"/var/lib/etcd": str(tmp_path / f"etcd-{machine}")}
        for folder in ("/etc/delaymq", "/etc/etcd"):
            places |= {f"{folder}/node": str(certificates / machine), f"{folder}/ca.pem": str(certificates / "ca.pem")}
        Path(places["/var/lib/etcd"]).mkdir()
        file = tmp_path / f"{machine}.toml"
        file.write_text(in_place(of_machine("delaymq.toml", machine), places), encoding="utf-8")
        nodes[machine] = (["--config", str(file)], {})
        given = in_place(of_machine("etcd.default", machine), places)
        members[machine] = dict(re.findall(r"^(ETCD_\w+)=(.*)$", given, re.MULTILINE))
    with network_of(*MACHINES) as network, Machines(tmp_path, network, nodes) as group:
        for machine, variables in members.items():
            group.start_etcd(machine, variables)
        group.start()
        group.live_through_a_lost_machine()
