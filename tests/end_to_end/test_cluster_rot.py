"""A disk of a group damages messages: another copy has them whole, and they come as if nothing had been."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import delaymq
from crafting import flip, place_of
from groups import PATIENCE_SECONDS, Group, await_true, in_file
from serving import Served

BODIES = [b"the body of message %03d" % number for number in range(20)]
ROTTEN = BODIES[7]
SET_CHANGED = "the set that has each committed fact"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """Three nodes, and messages that nobody has received yet."""
    with Group(tmp_path, in_file(tmp_path)) as made:
        made.start()
        with delaymq.connect(made.url, timeout=PATIENCE_SECONDS) as client:
            for body in BODIES:
                client.publish("order", body, delay=0)
            await_true(lambda: client.status().ready == len(BODIES), "all are ready")
        yield made


def sets(node: Served) -> list[str]:
    """The lines of its log that name the set."""
    return [line for line in node.said().splitlines() if SET_CHANGED in line]


def damage(node: Served, body: bytes = ROTTEN) -> tuple[Path, int]:
    path, at = place_of(node.folder, body)
    flip(path, at)
    return path, at


@contextmanager
def held_up(path: Path) -> Iterator[Callable[[], bool]]:
    """Whoever opens the file waits for its lease, as for a slow disk. Yields whether someone does."""
    copy = path.with_suffix(".copy")
    shutil.copy2(path, copy)
    # Whoever has the file open goes on with it.
    copy.replace(path)
    signal_before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield lambda: fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_WRLCK
    finally:
        os.close(descriptor)
        signal.signal(signal.SIGIO, signal_before)


def received(group: Group, count: int) -> set[bytes]:
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        messages = client.subscribe("order", group="billing")
        bodies: set[bytes] = set()
        while len(bodies) < count:
            message = messages.get(timeout=PATIENCE_SECONDS)
            assert message is not None, f"{sorted(bodies)}: {group.said()}"
            bodies.add(message.body)
            message.ack()
        messages.stop()
    return bodies


def repaired(node: Served) -> float:
    return node.metric("cluster_messages_repaired")


def test_a_message_that_the_primary_has_damaged_comes_whole_and_is_whole_again(group: Group) -> None:
    first = group.await_primary()
    path, at = damage(first)
    assert received(group, len(BODIES)) == set(BODIES)
    assert path.read_bytes()[at : at + len(ROTTEN)] == ROTTEN
    await_true(lambda: repaired(first) == 1, "it is counted")
    await_true(lambda: "is whole again, from the node" in first.said(), "it is said")


def test_a_message_that_a_replica_has_damaged_comes_whole_when_it_leads(group: Group) -> None:
    first = group.await_primary()
    other = next(node for node in group.nodes if node is not first)
    damage(other)
    ended = group.ask(first, "switchover", group.status(other)["node"])
    assert ended.returncode == 0, ended.stderr
    await_true(lambda: group.primary() is other, "the other node is the primary")
    assert received(group, len(BODIES)) == set(BODIES)
    await_true(lambda: repaired(other) == 1, "it is counted")


def test_a_replica_that_reads_a_message_slowly_goes_on_meanwhile(group: Group) -> None:
    first = group.await_primary()
    others = [node for node in group.nodes if node is not first]
    slow = min(others, key=lambda node: group.status(node)["node"])
    path, _ = place_of(slow.folder, ROTTEN)
    # The log names the whole set a little later than the status.
    await_true(lambda: any(line.count(", ") == len(others) for line in sets(first)), "the set is whole")
    sets_before = sets(first)
    with held_up(path) as is_read:
        damage(first)
        # The other node has it whole. Each acknowledgement is stored once all nodes of the set have it.
        assert received(group, len(BODIES)) == set(BODIES)
        assert is_read(), "the slow node is asked first"
        with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
            client.publish("order", b"meanwhile", delay=0)
        assert sets(first) == sets_before, "it stays in the set"


def test_a_message_that_all_copies_have_damaged_is_voided_by_name(group: Group) -> None:
    first = group.await_primary()
    for node in group.nodes:
        damage(node)
    assert received(group, len(BODIES) - 1) == set(BODIES) - {ROTTEN}
    await_true(lambda: "no other node that is connected has the damaged message" in first.said(), "it is said")
    assert [repaired(node) for node in group.nodes] == [0, 0, 0]
