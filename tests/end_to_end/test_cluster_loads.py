"""Bulk loads in a group of copies: all nodes of the set have the files before a load is answered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pytest

import delaymq
from delaymq import Loaded, MissingFile, NotEnoughCopies
from delaymq.loading import StagedRun, stage
from groups import PATIENCE_SECONDS, Group, await_true, in_file, traffic
from serving import Served

COUNT = 20_000
LARGE_COUNT = 40
LARGE = bytes(1 << 20)
LATER = timedelta(hours=1)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with Group(tmp_path, in_file(tmp_path)) as made:
        made.start()
        yield made


def rows(node: Served, count: int = COUNT, after: timedelta = LATER, body: bytes = b"") -> tuple[StagedRun, ...]:
    """Stages messages in the folder of a node."""
    due = datetime.now(UTC) + after
    bodies = [body or b"%d" % place for place in range(count)]
    table = pyarrow.table({"subject": ["loaded"] * count, "due": [due] * count, "body": bodies})
    return stage(node.folder, table)


def load(group: Group, job: str, runs: Sequence[StagedRun]) -> Loaded:
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        return client.load(job, runs)


def pending(group: Group) -> int:
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        return client.status().pending


def replicas(group: Group) -> list[Served]:
    primary = group.await_primary()
    return [node for node in group.nodes if node is not primary]


def files(node: Served) -> set[str]:
    return {file.name for file in (node.folder / "loads").glob("*.run")}


def test_a_load_is_on_all_nodes_when_it_is_answered_and_the_next_primary_delivers_it(group: Group) -> None:
    first = group.await_primary()
    runs = rows(first, after=timedelta(seconds=2))
    done = load(group, "nightly", runs)
    # The node whose disk is lost has answered just now.
    first.kill()
    assert (done.count, done.again) == (COUNT, False)
    for node in group.nodes:
        assert files(node) == {run.name for run in runs}
    group.await_primary(other_than=first)
    seen: Counter[bytes] = Counter()
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        again = client.load("nightly", runs)
        assert (again.first_sequence, again.again) == (done.first_sequence, True)
        messages = client.subscribe("loaded", group="billing")
        while len(seen) < COUNT:
            message = messages.get(timeout=PATIENCE_SECONDS)
            assert message is not None
            seen[message.body] += 1
            message.ack()
        assert messages.get(timeout=0.5) is None
    assert set(seen.values()) == {1}


def test_a_node_that_was_down_gets_the_log_and_the_files_and_can_lead(group: Group) -> None:
    away, other = replicas(group)
    away.kill()
    first = group.await_primary()
    with traffic(group.url) as flowing:
        flowing.await_more()
        runs = rows(first)
        load(group, "nightly", runs)
        assert (files(away), files(other)) == (set(), {run.name for run in runs})
        away.start()
        group.await_whole()
        assert files(away) == {run.name for run in runs}
        flowing.await_more()
        first.kill()
        other.kill()
        first.start()
        # The two that are left are the one that was away and the one that has just started.
        await_true(lambda: group.primary() in (away, first), "one of them leads")
        group.await_primary()
        flowing.await_more()
        flowing.end()
    assert pending(group) == COUNT


def test_publishes_go_on_while_a_node_that_is_killed_gets_the_files(group: Group) -> None:
    killed, _ = replicas(group)
    primary = group.await_primary()
    runs = rows(primary, LARGE_COUNT, body=LARGE)
    found: list[Loaded] = []
    loading = threading.Thread(target=lambda: found.append(load(group, "large", runs)))
    with traffic(group.url) as flowing:
        flowing.await_more()
        loading.start()
        await_true(lambda: list((killed.folder / "loads").glob("*")), "the node gets files")
        killed.kill()
        loading.join(PATIENCE_SECONDS)
        assert [(loaded.count, loaded.again) for loaded in found] == [(LARGE_COUNT, False)]
        flowing.await_more()
        killed.start()
        group.await_whole()
        flowing.await_more()
        flowing.end()
    assert pending(group) == LARGE_COUNT
    assert files(killed) == {run.name for run in runs}


def test_a_load_is_refused_while_copies_are_missing_and_a_replica_names_the_primary(group: Group) -> None:
    primary = group.await_primary()
    runs = rows(primary)
    others = replicas(group)
    for node in others:
        node.kill()
    await_true(lambda: group.primary() is None, "publishes are refused")
    with delaymq.connect(primary.url, timeout=PATIENCE_SECONDS) as client, pytest.raises(NotEnoughCopies) as short:
        client.load("nightly", runs)
    assert not short.value.maybe_stored
    for node in others:
        node.start()
    group.await_whole()
    assert pending(group) == 0
    replica = replicas(group)[0]
    with delaymq.connect(replica.url, timeout=PATIENCE_SECONDS) as client:
        assert not client.load("nightly", runs).again
    assert pending(group) == COUNT


def test_a_load_during_which_the_primary_is_killed_is_done_once_when_it_is_repeated(group: Group) -> None:
    first = group.await_primary()
    runs = rows(first, LARGE_COUNT, body=LARGE)
    ended: list[Loaded | Exception] = []

    def try_load() -> None:
        try:
            ended.append(load(group, "large", runs))
        except delaymq.DelaymqError as error:
            ended.append(error)

    loading = threading.Thread(target=try_load)
    loading.start()
    await_true(lambda: any((node.folder / "loads").glob("*") for node in replicas(group)), "a node gets files")
    first.kill()
    loading.join(PATIENCE_SECONDS)
    assert len(ended) == 1
    second = group.await_primary(other_than=first)
    if isinstance(ended[0], Loaded):
        assert load(group, "large", runs).again
    else:
        try:
            load(group, "large", runs)
        except MissingFile:
            # It was never stored, and the new primary does not have all files.
            load(group, "large", rows(second, LARGE_COUNT, body=LARGE))
    assert pending(group) == LARGE_COUNT
    first.start()
    group.await_whole()
    assert pending(group) == LARGE_COUNT
