"""A node that lacks more than the primary's log has gets its files: the log of real processes has no beginning."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pytest

import delaymq
from delaymq import Publish
from delaymq.loading import stage
from groups import PATIENCE_SECONDS, SEGMENT_BYTES, Group, await_true, in_file, set_words, traffic
from serving import Served

LOADED = 100
BODY = bytes(10_000)


def hollow(folder: Path) -> None:
    """A closed store that has removed the beginning of its log."""
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES, keep_finished=0) as store:
        # Nobody subscribes to the noise, so nothing of it is kept.
        for turn in range(20):
            store.publish_many([Publish("noise", BODY, delay=0)] * 150)
            if turn % 5 == 4:
                store.checkpoint()
        far = datetime.now(UTC) + timedelta(hours=1)
        rows = pyarrow.table({"subject": ["order"] * LOADED, "due": [far] * LOADED, "body": [b"loaded"] * LOADED})
        store.load("far", stage(folder, rows))
        store.publish("order", b"far", at=far)
    segments = sorted(int(file.stem) for file in (folder / "log").glob("*.segment"))
    assert segments[-1] - segments[0] >= len(segments), f"the log has its beginning: {segments}"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """Three nodes, the first of which has a log without its beginning, and pending messages."""
    register = (*in_file(tmp_path), *set_words("store.keep_finished_hours=0"))
    with Group(tmp_path, register) as made:
        hollow(made.nodes[0].folder)
        made.start()
        yield made


def pending(group: Group) -> int:
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        return client.status().pending


def await_taken_over(node: Served) -> None:
    await_true(lambda: "the snapshot has taken the place of this copy" in node.said(), "the node has the files")


def test_new_copies_of_a_log_without_its_beginning_have_everything(group: Group) -> None:
    first = group.await_primary()
    await_true(lambda: "gets files instead of the log" in first.said(), "the primary says that it offers its files")
    for node in group.nodes[1:]:
        await_taken_over(node)
        assert not list((node.folder / "incoming").iterdir())
    with traffic(group.url) as flowing:
        flowing.await_more()
        first.kill()
        second = group.await_primary(other_than=first)
        flowing.await_more()
        flowing.end()
    assert pending(group) == LOADED + 1
    second.kill()


def test_a_node_whose_disk_is_lost_comes_back_while_traffic_goes_on(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        lost = next(node for node in group.nodes if node is not group.await_primary())
        lost.kill()
        shutil.rmtree(lost.folder)
        flowing.await_more()
        lost.start()
        group.await_whole()
        await_taken_over(lost)
        flowing.await_more()
        primary = group.await_primary()
        # The copy can lead.
        assert group.ask(primary, "switchover", group.status(lost)["node"]).returncode == 0
        await_true(lambda: group.primary() is lost, "the new copy leads")
        flowing.await_more()
        flowing.end()
    assert pending(group) == LOADED + 1
