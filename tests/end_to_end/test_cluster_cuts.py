"""A group of copies on a network that is cut: each node, the register and the clients have a machine of their own."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import delaymq
from groups import PATIENCE_SECONDS, Group, Traffic, await_true, in_etcd, set_words, token_hash, traffic
from namespaces import Network, both
from serving import Served

NODES = ("node1", "node2", "node3")
REGISTER, CLIENT = "register", "client"
TOKEN = "dmqt_of_the_clients"
CUT_SECONDS = 6  # twice the time after which a silent primary is replaced


class Apart(Group):
    """A group on a network. Each node is looked at from its own machine, which no cut parts from it."""

    def __init__(self, network: Network, folder: Path, register: tuple[str, ...]) -> None:
        self.network = network
        _write_authority(folder)
        super().__init__(folder, register, [network.addresses[node] for node in NODES])

    def _settings(self, place: str, others: list[str]) -> tuple[str, ...]:
        host, _, _ = place.partition(":")
        certificate, key = _write_certificate(self.folder, host)
        return super()._settings(place, others) + set_words(
            f"cluster.ca={self.folder / 'authority.pem'}",
            f"cluster.certificate={certificate}",
            f"cluster.key={key}",
            f"server.host={host}",
            "server.port=20801",
            f"server.advertised_address={host}:20801",
            f"server.token_hash={token_hash(TOKEN)}",
        )

    def place(self, node: Served) -> str:
        return NODES[self.nodes.index(node)]

    def others(self, node: Served) -> tuple[Served, Served]:
        one, other = (other for other in self.nodes if other is not node)
        return one, other

    def start(self) -> None:
        self.create()
        for node in self.nodes:
            with self.network.inside(self.place(node)):
                node.start()
        self.await_whole()

    def status(self, node: Served) -> dict[str, Any]:
        with self.network.inside(self.place(node)):
            return super().status(node)

    def await_set(self, *nodes: Served) -> None:
        """Waits until a primary says that the set is made of these nodes."""
        wanted = {self.status(node)["node"] for node in nodes}

        def is_so() -> bool:
            primary = self.primary()
            return primary is not None and set(self.status(primary)["register"]["sync"]) == wanted

        await_true(is_so, f"the set is not {wanted}: {self.said()}")

    @contextmanager
    def traffic(self, count: int = 50) -> Iterator[Traffic]:
        """Traffic, of which so many messages have come already."""
        with traffic(self.url, TOKEN) as flowing:
            flowing.await_more(count)
            yield flowing


@contextmanager
def started(folder: Path, lossy: Sequence[str] = ()) -> Iterator[Apart]:
    """A group whose tests run on the machine of the clients."""
    with Network([*NODES, REGISTER, CLIENT], lossy) as network, ExitStack() as parts:
        with network.inside(REGISTER):
            register = parts.enter_context(in_etcd(folder, network.addresses[REGISTER]))
        parts.enter_context(network.inside(CLIENT))
        group = parts.enter_context(Apart(network, folder, register))
        group.start()
        yield group


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Apart]:
    with started(tmp_path) as made:
        yield made


def _openssl(folder: Path, words: str) -> None:
    ended = subprocess.run(["openssl", *words.split()], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


def _write_authority(folder: Path) -> None:
    _openssl(folder, f"req -x509 {NEW_KEY} -keyout authority.key -out authority.pem -subj /CN=authority -days 30")


def _write_certificate(folder: Path, address: str) -> tuple[Path, Path]:
    """A certificate that is valid for the address, and its key."""
    (folder / f"{address}.names").write_text(f"subjectAltName=IP:{address}")
    _openssl(folder, f"req {NEW_KEY} -keyout {address}.key -out {address}.request -subj /CN={address}")
    signed = f"-CA authority.pem -CAkey authority.key -out {address}.pem -days 30 -extfile {address}.names"
    _openssl(folder, f"x509 -req -in {address}.request {signed}")
    return folder / f"{address}.pem", folder / f"{address}.key"


def test_a_primary_that_is_cut_off_answers_nothing_until_it_has_stepped_down(group: Apart) -> None:
    with group.traffic() as flowing:
        first = group.await_primary()
        with group.network.inside(group.place(first)):
            beside = delaymq.connect(first.url, token=TOKEN, timeout=PATIENCE_SECONDS)
        answers: list[object] = []

        def publish() -> None:
            try:
                answers.append(beside.publish("beside", b"", delay=3600))
            except delaymq.DelaymqError as error:
                answers.append(error)

        with group.network.cut(group.network.isolated(group.place(first))):
            asking = threading.Thread(target=publish)
            asking.start()
            group.await_primary(other_than=first)
            flowing.await_more()
            assert not [answer for answer in answers if not isinstance(answer, delaymq.DelaymqError)]
            assert group.status(first)["role"] == "primary", "it does not know"
        group.await_whole()
        assert group.status(first)["role"] == "replica"
        asking.join(PATIENCE_SECONDS)
        assert isinstance(answers[0], delaymq.DelaymqError)
        beside.close()
        flowing.await_more()
        flowing.end()


def test_a_primary_goes_on_without_the_register_until_the_set_must_change(group: Apart) -> None:
    network = group.network
    with group.traffic() as flowing:
        first = group.await_primary()
        epoch, (one, other) = group.status(first)["epoch"], group.others(first)
        with ExitStack() as without_register:
            without_register.enter_context(network.cut(both(group.place(first), REGISTER)))
            time.sleep(CUT_SECONDS)
            flowing.await_more()
            with network.cut(network.isolated(group.place(other))):
                await_true(lambda: "the register does not answer" in first.said(), "a swap is tried")
                answered = len(flowing.answered)
                time.sleep(1)
                assert len(flowing.answered) == answered, "the node that has left is still in the set"
                without_register.close()
                group.await_set(first, one)
                flowing.await_more()
        group.await_whole()
        assert group.status(first)["epoch"] == epoch
        flowing.end()


@pytest.mark.parametrize("is_one_way", [True, False], ids=["one way", "wholly"])
def test_a_replica_that_hears_nothing_leaves_the_set_and_joins_again(group: Apart, *, is_one_way: bool) -> None:
    network = group.network
    with group.traffic() as flowing:
        first = group.await_primary()
        epoch, (one, other) = group.status(first)["epoch"], group.others(first)
        place = group.place(other)
        with network.cut([(group.place(first), place)] if is_one_way else network.isolated(place)):
            group.await_set(first, one)
            flowing.await_more()
            time.sleep(CUT_SECONDS)
            flowing.await_more()
        group.await_whole()
        assert group.status(first)["epoch"] == epoch, "nobody has claimed the group"
        flowing.end()


@pytest.mark.parametrize("from_whom", ["all", "replicas"])
@pytest.mark.parametrize("is_deaf", [True, False], ids=["deaf", "mute"])
def test_a_primary_whose_packets_go_one_way_is_replaced(group: Apart, *, is_deaf: bool, from_whom: str) -> None:
    """Also where it reaches the register, so that it could make a set of itself."""
    network = group.network
    with group.traffic() as flowing:
        first = group.await_primary()
        place = group.place(first)
        far = network.others(place) if from_whom == "all" else [group.place(node) for node in group.others(first)]
        with network.cut([(other, place) if is_deaf else (place, other) for other in far]):
            group.await_primary(other_than=first)
            flowing.await_more()
        group.await_whole()
        flowing.end()


def test_a_link_that_is_slow_and_loses_packets_only_delays(tmp_path: Path) -> None:
    with started(tmp_path, lossy=NODES[:1]) as group, group.traffic(20) as flowing:
        group.await_whole()
        flowing.end()
        assert all(link.lost for link in group.network.links)
