"""A group of copies, of which one node has a wrong wall clock: another one takes over, or nothing is early."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import delaymq
from clocks.stepped import Wall, library
from groups import PATIENCE_SECONDS, Group, await_true, in_file, traffic
from serving import Served

HOUR_MS = 3_600_000
WRONG = 1
"""The place of the node whose clock is turned."""


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("clock"))


class Turned(Group):
    """A group with a node whose clock a test turns."""

    def __init__(self, folder: Path, clock: Path) -> None:
        super().__init__(folder, in_file(folder))
        self.wall = Wall(folder / "wall")
        turned = {"LD_PRELOAD": str(clock), "STEPPED_CLOCK": str(self.wall.file)}
        self.wrong = Served(self.nodes[WRONG].folder, *self.settings[WRONG], **turned)
        self.nodes[WRONG] = self.wrong

    def copy_of(self, identity: str) -> dict[str, Any]:
        """The copy of that node, as the primary knows it."""
        [copy] = [copy for copy in self.status(self.await_primary())["copies"] if copy["node"] == identity]
        return dict(copy)

    def await_fit(self, node: Served, *reasons: str) -> None:
        await_true(lambda: self.status(node)["unfit_reasons"] == list(reasons), f"{reasons}: {self.said()}")


def _says(node: Served, words: str) -> bool:
    return words in node.said()


@pytest.fixture
def group(tmp_path: Path, clock: Path) -> Iterator[Turned]:
    with Turned(tmp_path, clock) as made:
        made.start()
        yield made


def test_a_node_whose_clock_is_wrong_is_reported_and_another_one_takes_over(group: Turned) -> None:
    first, wrong, third = group.nodes
    identity = group.status(wrong)["node"]
    assert group.primary() is first
    with traffic(group.url) as flowing:
        flowing.await_more()
        for ahead_ms, words in ((-500, "ms behind"), (HOUR_MS, "ms ahead of")):
            group.wall.stand(0)
            # The primary measures it a little later than the node sees its own step.
            await_true(lambda: not group.copy_of(identity)["is_clock_apart"], "the clocks agree")
            group.await_fit(wrong)
            time.sleep(0.3)  # no heartbeat from before is on its way
            group.wall.stand(ahead_ms)
            group.await_fit(wrong, "clock")
            await_true(partial(_says, wrong, words), "it says so itself")
            await_true(partial(_says, first, f"{words} that of this node"), "the primary says so")
            await_true(lambda: group.copy_of(identity)["is_clock_apart"], "the primary shows it")
            assert abs(group.copy_of(identity)["clock_offset_ms"] - ahead_ms) < 100
            assert f'delaymq_cluster_clock_offset_ms{{node="{identity}"}} ' in first.page("/metrics")[1]
        warnings = first.said().count("disagrees with that of the group")
        time.sleep(1)
        assert first.said().count("disagrees with that of the group") == warnings, "it is said once"
        first.kill()
        assert group.await_primary(other_than=first) is third
        flowing.await_more()
        first.start()
        group.await_whole()
        group.wall.stand(0)
        group.await_fit(wrong)
        await_true(partial(_says, third, f"the node {identity} agrees with the others again"), "it is said")
        flowing.end()


def test_a_node_whose_clock_is_far_ahead_delivers_nothing_early_where_it_is_the_last_one(group: Turned) -> None:
    first, wrong, third = group.nodes
    identity = group.status(wrong)["node"]
    group.wall.stand(HOUR_MS)
    # The node sees its own step at once. A heartbeat from before the primary measured it says that the clock is right.
    await_true(lambda: group.copy_of(identity)["is_clock_apart"], "the primary shows it")
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        client.publish("order", b"in a minute", delay=60)
    time.sleep(1)  # no heartbeat from before is on its way
    group.await_fit(wrong, "clock")
    first.kill()
    third.kill()
    await_true(lambda: group.status(wrong)["role"] == "primary", "it takes over, since nobody else does")
    await_true(lambda: wrong.metric("dispatch_held") == 1, "it does not believe its clock")
    with delaymq.connect(wrong.url, timeout=PATIENCE_SECONDS) as client:
        assert client.status().pending == 1, "it is not due"
    group.wall.stand(0)
    await_true(lambda: wrong.metric("dispatch_held") == 0, "its clock is right")
