"""What an operator does to a group of copies: real processes, and clients that go on meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from groups import HERE, PATIENCE_SECONDS, Group, await_true, in_file, traffic
from serving import Served


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with Group(tmp_path, in_file(tmp_path)) as made:
        made.start()
        yield made


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Group]:
    with Group(tmp_path, in_file(tmp_path), [HERE] * 2) as made:
        made.start()
        yield made


def must_refuse(group: Group, node: Served, words: str, *asked: str) -> None:
    ended = group.ask(node, *asked)
    assert (ended.returncode, words in ended.stderr) == (3, True), ended


def consume(messages: delaymq.Subscription, count: int) -> set[bytes]:
    found: set[bytes] = set()
    while len(found) < count:
        message = messages.get(PATIENCE_SECONDS)
        assert message is not None
        found.add(message.body)
        message.ack()
    return found


def await_alone(group: Group) -> Served:
    """Waits until one node is the set, and no other node is connected to it."""

    def is_alone() -> bool:
        running = [node for node in group.nodes if group.is_running(node)]
        status = group.status(running[0])
        return len(running) == len(status["register"]["sync"]) == 1 and not any(
            other["is_connected"] for other in status["nodes"]
        )

    await_true(is_alone, "one node goes on alone")
    return next(node for node in group.nodes if group.is_running(node))


def test_a_node_that_is_gone_is_removed_while_the_others_go_on(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        primary = group.await_primary()
        gone, other = (node for node in group.nodes if node is not primary)
        identity = group.status(gone)["node"]
        must_refuse(group, primary, "stop it first", "remove", identity)
        must_refuse(group, other, f"only the primary removes a node, which is {primary.address}", "remove", identity)
        gone.kill()
        await_true(lambda: group.ask(primary, "remove", identity).returncode == 0, "it is removed")
        assert identity not in str(group.status(primary))
        flowing.await_more()
        primary.kill()
        await_true(lambda: group.status(other)["role"] == "primary", "the other node takes over")
        assert identity not in str(group.status(other)), "it has forgotten the node as well"
        primary.start()
        gone.start()
        group.await_whole()
        flowing.end()


def test_the_last_copy_of_what_was_answered_is_removed_only_with_its_loss(pair: Group) -> None:
    primary = pair.await_primary()
    gone = next(node for node in pair.nodes if node is not primary)
    identity = pair.status(gone)["node"]
    gone.kill()
    await_alone(pair)
    must_refuse(pair, primary, "accept the loss", "remove", identity)
    ended = pair.ask(primary, "remove", identity, "--accept-loss")
    assert ended.returncode == 0, ended.stderr
    register = pair.status(primary)["register"]
    assert register["sync"] == register["complete"] == [pair.status(primary)["node"]]
    shutil.rmtree(gone.folder)
    gone.start()
    pair.await_whole()


def test_a_complete_node_goes_on_after_the_set_was_lost(pair: Group) -> None:
    lost = pair.await_primary()
    left = next(node for node in pair.nodes if node is not lost)
    identity = pair.status(left)["node"]
    with delaymq.connect(pair.url, timeout=PATIENCE_SECONDS) as client:
        for number in range(20):
            client.publish("order", b"%d" % number)
        await_true(lambda: pair.status(left)["primary"], "it hears the primary")
        must_refuse(pair, left, "is heard", "promote", identity)
        left.kill()
        await_alone(pair)
        with client.subscribe("order", group="billing") as messages:
            consume(messages, 5)
    lost.kill()
    shutil.rmtree(lost.folder)
    left.start()
    await_true(lambda: pair.status(left)["register"], "it has read the register")
    must_refuse(pair, left, "ask the node", "promote", "0" * 32)
    ended = pair.ask(left, "promote", identity)
    assert (ended.returncode, f"{identity} is the primary" in ended.stdout) == (0, True), ended.stderr
    with delaymq.connect(pair.url, timeout=PATIENCE_SECONDS) as client:
        with pytest.raises(delaymq.NotEnoughCopies):
            client.publish("order", b"refused")
        with client.subscribe("order", group="billing") as messages:
            bodies = consume(messages, 20)
        assert bodies == {b"%d" % number for number in range(20)}, "what was answered is kept"
        lost.start()
        pair.await_whole()
        client.publish("order", b"on two disks")


def test_a_node_that_lacks_messages_is_not_promoted(group: Group) -> None:
    primary = group.await_primary()
    behind, other = (node for node in group.nodes if node is not primary)
    behind.kill()
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        client.publish("order", b"on two disks", delay=3600)
    await_true(lambda: len(group.status(primary)["register"]["complete"]) == 2, "one node is not complete")
    primary.kill()
    other.kill()
    behind.start()
    await_true(lambda: group.status(behind)["register"], "it has read the register")
    must_refuse(group, behind, "lacks messages", "promote", group.status(behind)["node"])
