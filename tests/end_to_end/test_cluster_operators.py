"""What an operator does to a group of copies: real processes, and clients that go on meanwhile."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from groups import HERE, PATIENCE_SECONDS, Group, await_true, in_file, node_settings, traffic
from ports import lone_port
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


def served_in_vain(group: Group, node: Served) -> str:
    """The one line of a node that does not start."""
    ports = ("--set", "server.port=0", "--set", "http.port=0")
    return refused(3, "serve", "--store", str(node.folder), *ports, *group.settings[group.nodes.index(node)])


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
        words = f"only the primary removes a node, which is {primary.address}"
        await_true(lambda: words in group.ask(other, "remove", identity).stderr, "a replica names the primary")
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


def restore(register: Path, backup: str) -> str:
    """Puts a backup in the place of the register, as that of another coordinator, whose number it returns."""
    found = json.loads(backup)
    found["coordinator"] = found["coordinator"] % 2**32 + 1
    restored = register.with_name("restored")
    restored.write_text(json.dumps(found))
    restored.replace(register)
    return str(found["coordinator"])


def test_a_group_goes_on_with_a_register_that_is_older_than_the_group(group: Group) -> None:
    register = group.folder / "register"
    backup = register.read_text()
    first = group.await_primary()
    behind, other = (node for node in group.nodes if node is not first)
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        client.publish("order", b"on three disks")
        behind.kill()
        for number in range(20):
            client.publish("order", b"%d" % number)
        # A node that hands over may get the first fact of the other one before it has stopped.
        first.kill()
        await_true(lambda: group.status(other)["role"] == "primary", "the other node takes over")
    other.kill()
    coordinator = restore(register, backup)
    for node in group.nodes:
        node.start()
    await_true(lambda: all(group.status(node)["awaits_confirmation"] for node in group.nodes), "they have seen it")
    place = {node: (group.status(node)["log_epoch"], group.status(node)["durable"]) for node in group.nodes}
    assert max(place, key=place.__getitem__) is other
    assert place[behind] < place[first] < place[other]
    must_refuse(group, other, f"that of the coordinator {coordinator}, and not of 1", "confirm", "1")
    ended = group.ask(other, "confirm", coordinator)
    assert (ended.returncode, coordinator in ended.stdout) == (0, True), ended.stderr
    group.await_whole()
    assert group.primary() is other
    await_true(lambda: not any(group.status(node)["awaits_confirmation"] for node in group.nodes), "all believe it")
    with (
        delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client,
        client.subscribe("order", group="billing") as messages,
    ):
        client.publish("order", b"after")
        assert consume(messages, 22) == {b"on three disks", b"after", *(b"%d" % number for number in range(20))}


def test_a_primary_that_is_confirmed_goes_on_with_its_set_and_without_a_pause(group: Group) -> None:
    register = group.folder / "register"
    backup = register.read_text()
    with traffic(group.url) as flowing:
        flowing.await_more()
        primary = group.await_primary()
        epoch, changes = group.status(primary)["epoch"], role_changes(primary)
        coordinator = restore(register, backup)
        await_true(lambda: all(group.status(node)["awaits_confirmation"] for node in group.nodes), "they have seen it")
        replica = next(node for node in group.nodes if node is not primary)
        must_refuse(group, replica, "is heard: confirm the register there", "confirm", coordinator)
        ended = group.ask(primary, "confirm", coordinator)
        assert ended.returncode == 0, ended.stderr
        await_true(lambda: not any(group.status(node)["awaits_confirmation"] for node in group.nodes), "all believe it")
        flowing.await_more()
        assert (group.status(primary)["epoch"], role_changes(primary)) == (epoch, changes)
        assert len(group.status(primary)["register"]["sync"]) == 3
        primary.kill()
        group.await_primary(other_than=primary)
        flowing.await_more()
        flowing.end()


def role_changes(node: Served) -> int:
    [count] = re.findall(r"^delaymq_cluster_role_changes (\d+)$", node.page("/metrics")[1], re.MULTILINE)
    return int(count)


def test_a_node_that_lacks_messages_is_promoted_only_with_their_loss(group: Group) -> None:
    primary = group.await_primary()
    behind, other = (node for node in group.nodes if node is not primary)
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        client.publish("order", b"on three disks", delay=3600)
        behind.kill()
        client.publish("order", b"on two disks", delay=3600)
    await_true(lambda: len(group.status(primary)["register"]["complete"]) == 2, "one node is not complete")
    primary.kill()
    other.kill()
    behind.start()
    await_true(lambda: group.status(behind)["register"], "it has read the register")
    identity = group.status(behind)["node"]
    must_refuse(group, behind, "lacks messages", "promote", identity)
    behind.stop()
    # The others are gone for good, and the operator accepts the loss.
    place = ("--store", str(behind.folder), *group.settings[group.nodes.index(behind)])
    assert "expected the 32 hexadecimal digits" in refused(2, "cluster", "promote", "0a", "--accept-loss", *place)
    ended = command("cluster", "promote", identity, "--accept-loss", *place)
    assert (ended.returncode, "as timeline 1" in ended.stdout, "may be missing" in ended.stdout) == (0, True, True)
    line = served_in_vain(group, other)
    assert "went on without it, as timeline 1" in line
    for node in (primary, other):
        shutil.rmtree(node.folder)
    for node in group.nodes:
        node.start()
    group.await_whole()
    with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
        assert client.status().pending == 1, "the message from before the loss is kept, the other is lost"
        client.publish("order", b"again", delay=3600)


def beside(group: Group, *peers: str) -> Served:
    """A node of the group at an address that no other node knows."""
    settings = (*node_settings(f"{HERE}:{lone_port()}", peers), *group.register)
    group.settings.append(settings)
    group.nodes.append(Served(group.folder / "new", *settings))
    return group.nodes[-1]


def listens_at(group: Group, node: Served) -> str:
    """Where a node listens for others."""
    settings = group.settings[group.nodes.index(node)]
    return next(word.partition("=")[2] for word in settings if word.startswith("cluster.listen="))


def drop(group: Group, node: Served) -> None:
    """A node is gone, with its disk."""
    node.kill()
    shutil.rmtree(node.folder)
    place = group.nodes.index(node)
    del group.nodes[place], group.settings[place]


def test_copies_are_demanded_as_the_operator_says(pair: Group) -> None:
    primary = pair.await_primary()
    other = next(node for node in pair.nodes if node is not primary)
    must_refuse(pair, primary, "the set has 2 nodes", "min-copies", "3")
    must_refuse(pair, primary, "min_copies must be at least 1", "min-copies", "0")
    must_refuse(pair, other, "only the primary changes min_copies", "min-copies", "1")
    other.kill()
    await_alone(pair)
    with delaymq.connect(pair.url, timeout=PATIENCE_SECONDS) as client:
        with pytest.raises(delaymq.NotEnoughCopies):
            client.publish("orders", b"refused")
        ended = pair.ask(primary, "min-copies", "1")
        assert (ended.returncode, ended.stdout) == (0, "min_copies is 1 from now on\n"), ended
        register = pair.status(primary)["register"]
        assert register["sync"] == register["complete"], "the other node lacks what is answered now"
        client.publish("orders", b"on one node")
        must_refuse(pair, primary, "the set has 1 nodes", "min-copies", "2")
        other.start()
        pair.await_whole()
        assert pair.ask(primary, "min-copies", "2").returncode == 0
        other.kill()
        await_alone(pair)
        with pytest.raises(delaymq.NotEnoughCopies):
            client.publish("orders", b"refused")
        with client.subscribe("orders", group="workers") as messages:
            assert consume(messages, 1) == {b"on one node"}


def test_a_node_at_a_new_address_takes_the_place_of_a_dead_one(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        primary = group.await_primary()
        named, gone = (node for node in group.nodes if node is not primary)
        identity = group.status(gone)["node"]
        drop(group, gone)
        await_true(lambda: group.ask(primary, "remove", identity).returncode == 0, "the dead node is removed")
        # Its settings name a replica alone, which tells it where the primary is.
        beside(group, listens_at(group, named)).start()
        group.await_whole()
        flowing.await_more()
        # Each old node restarts, and finds the new one again.
        for node in (named, primary):
            node.kill()
            group.await_primary(other_than=node)
            flowing.await_more()
            node.start()
            group.await_whole()
        flowing.end()


def test_a_node_that_names_no_other_is_added_by_an_operator(group: Group) -> None:
    primary = group.await_primary()
    asked = next(node for node in group.nodes if node is not primary)
    new = beside(group)
    new.start()
    where = listens_at(group, new)
    ended = group.ask(asked, "add", where)
    words = f"the node {group.status(new)['node']} at {where} is in the set"
    assert (ended.returncode, words in ended.stdout) == (0, True), ended
    group.await_whole()
    assert group.ask(asked, "add", where).returncode == 0, "again"


def test_an_address_of_no_node_of_the_group_is_refused(pair: Group, tmp_path: Path) -> None:
    primary = pair.await_primary()
    other = next(node for node in pair.nodes if node is not primary)
    must_refuse(pair, primary, "is no host:port", "add", "nowhere")
    must_refuse(pair, primary, "10.0.0.1", "add", "10.0.0.1:1")
    must_refuse(pair, primary, "the address is that of the node itself", "add", listens_at(pair, primary))
    port = listens_at(pair, other).rpartition(":")[2]
    must_refuse(pair, primary, "a node of the same id answers at another address", "add", f"localhost:{port}")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Group(elsewhere, in_file(elsewhere), [HERE]) as another:
        another.create(min_copies=1)
        another.nodes[0].start()
        must_refuse(pair, primary, "another stream", "add", listens_at(another, another.nodes[0]))
    ended = pair.ask(primary, "add", "no-such-host.invalid:1", "--timeout", "1s")
    assert (ended.returncode, "no node at no-such-host.invalid:1 is in the set after 1 s" in ended.stderr) == (8, True)
