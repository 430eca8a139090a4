"""An upgrade of a group, one process after the other. The next release is a test build that knows a made-up format."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groups import PATIENCE_SECONDS, Group, in_file, traffic
from serving import Served

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "target" / "planted" / "packages"
NEXT_RELEASE = {"DELAYMQ_NEXT_FORMAT": "1"}
REFUSAL = "delaymq: the log of the primary has format 2, this release reads up to 1: use the release that wrote it"


@contextmanager
def started(folder: Path) -> Iterator[Group]:
    """A group of three nodes of a test build, which must have been built."""
    if not (PLANTED / "delaymq").is_dir():
        pytest.skip("`make test` and `make test-python` build the planted package")
    with Group(folder, in_file(folder)) as group:
        for node in group.nodes:
            node.change(PYTHONPATH=str(PLANTED))
        group.start()
        yield group


def upgrade(node: Served) -> None:
    """Starts a node again, by the next release. A node that has ended is only started."""
    if Group.is_running(node):
        node.process.send_signal(signal.SIGTERM)
        node.process.wait(PATIENCE_SECONDS)
        # A primary that hands over may get the log of the next one before it has stopped.
        assert node.process.returncode in (0, 7) or node.said().splitlines()[-1] == REFUSAL, node.said()
    node.kill()
    node.change(**NEXT_RELEASE)
    node.start()


def test_a_group_is_upgraded_node_by_node_under_load_the_primary_last(tmp_path: Path) -> None:
    with started(tmp_path) as group, traffic(group.url) as flowing:
        flowing.await_more()
        first = group.await_primary()
        for node in [*(other for other in group.nodes if other is not first), first]:
            upgrade(node)
            group.await_whole()
            flowing.await_more()
        assert group.primary() is not first, "it has handed over"
        flowing.end()


def test_a_node_of_the_former_release_ends_at_the_next_format_and_follows_once_it_is_upgraded(tmp_path: Path) -> None:
    """The primary is upgraded too early: it writes what the others cannot read."""
    with started(tmp_path) as group, traffic(group.url) as flowing:
        flowing.await_more()
        first = group.await_primary()
        early, late = (node for node in group.nodes if node is not first)
        upgrade(early)
        group.await_whole()
        assert group.ask(first, "switchover", group.status(early)["node"]).returncode == 0
        for node in (first, late):
            node.process.wait(PATIENCE_SECONDS)
            assert node.said().splitlines()[-1] == REFUSAL
        for node in (first, late):
            upgrade(node)
        group.await_whole()
        flowing.await_more()
        flowing.end()
