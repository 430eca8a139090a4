"""A group of copies: three real processes, a client that publishes all the time, and what may happen to a node."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from commanding import arguments_of, command, refused
from groups import HERE, PATIENCE_SECONDS, Group, await_true, in_etcd, in_file, paused, traffic

PAUSE_SECONDS = 6  # twice the time after which a silent primary is replaced


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with Group(tmp_path, in_file(tmp_path)) as made:
        made.start()
        yield made


def test_a_killed_primary_is_replaced_and_comes_back_as_a_copy(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        first = group.await_primary()
        first.kill()
        second = group.await_primary(other_than=first)
        flowing.await_more()
        first.start()
        group.await_whole()
        assert group.status(first)["role"] == "replica"
        flowing.await_more()
        second.kill()
        group.await_primary(other_than=second)
        flowing.await_more()
        flowing.end()


def test_a_primary_hands_over(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        first = group.await_primary()
        other = next(node for node in group.nodes if node is not first)
        refusal = group.ask(other, "switchover", group.status(other)["node"])
        assert (refusal.returncode, "only the primary hands over" in refusal.stderr) == (3, True)
        ended = group.ask(first, "switchover", group.status(other)["node"])
        assert ended.returncode == 0, ended.stderr
        await_true(lambda: group.primary() is other, "the other node is the primary")
        flowing.await_more()
        group.await_whole()
        flowing.end()
    assert group.status(first)["role"] == "replica"


def test_a_paused_primary_steps_down_when_it_wakes(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        first = group.await_primary()
        with paused(first):
            time.sleep(PAUSE_SECONDS)
        await_true(lambda: group.status(first)["role"] == "replica", "it steps down")
        group.await_primary(other_than=first)
        flowing.await_more()
        group.await_whole()
        flowing.end()


def test_a_message_that_is_on_one_disk_is_not_answered_as_stored(group: Group) -> None:
    primary = group.await_primary()
    replicas = [node for node in group.nodes if node is not primary]
    with delaymq.connect(primary.url, timeout=PATIENCE_SECONDS) as client:
        client.publish("order", b"on two disks", delay=3600)
        with paused(*replicas):
            # The first is on its way when the replicas are found to be silent. The second is refused.
            with pytest.raises(delaymq.NotEnoughCopies) as caught:
                client.publish("order", b"on one disk", delay=3600)
            assert (caught.value.copies, caught.value.min_copies, caught.value.maybe_stored) == (1, 2, True)
            with pytest.raises(delaymq.NotEnoughCopies) as caught:
                client.publish("order", b"nowhere", delay=3600)
            assert not caught.value.maybe_stored
            await_true(lambda: not group.status(primary)["accepts_publishes"], "the status says so, a little later")
        group.await_whole()
        client.publish("order", b"on three disks", delay=3600)


def test_a_client_of_a_replica_is_sent_to_the_primary_and_a_reader_reads_its_folder(group: Group) -> None:
    primary = group.await_primary()
    replica = next(node for node in group.nodes if node is not primary)
    with delaymq.connect(replica.url, timeout=PATIENCE_SECONDS) as client:
        for number in range(10):
            client.publish("order", b"%d" % number, delay=3600)
        assert client.status().pending == 10

    def pending() -> int:
        ended = command("inspect", "--store", replica.folder, "--json")
        assert ended.returncode == 0, ended.stderr
        return int(json.loads(ended.stdout)["pending"])

    await_true(lambda: pending() == 10, "a reader of the replica's folder sees them")
    assert "listens" not in refused(5, "status", "--store", replica.folder)


def test_the_status_is_a_table_and_the_register_where_no_node_answers(group: Group) -> None:
    primary = group.await_primary()
    where = f"http://{primary.http_address}"
    ended = command("cluster", "status", "--http", where)
    assert ended.returncode == 0, ended.stderr
    first, *_, head, own, one, two = ended.stdout.splitlines()
    identity = group.status(primary)["node"]
    assert first.startswith(f"node {identity} is primary, epoch ")
    assert head.split()[:2] == ["node", "role"]
    assert own.split()[:3] == [identity, "primary", "yes"]
    assert all(line.split()[1:3] == ["replica", "yes"] for line in (one, two))
    said = command("cluster", "status", "--http", where, "--json")
    assert json.loads(said.stdout)["status"]["role"] == "primary"
    for node in group.nodes:
        node.kill()
    ended = command("cluster", "status", "--http", where, *group.settings[0])
    assert ended.returncode == 8
    assert ended.stdout.startswith(f"no node answers at {where}/cluster: ")
    assert identity in ended.stdout
    said = command("cluster", "status", "--http", where, *group.settings[0], "--json")
    found = json.loads(said.stdout)
    assert (said.returncode, found["status"], found["register"]["primary"]) == (8, None, identity)


def test_a_primary_that_is_lost_with_its_disk_is_replaced_by_an_empty_folder(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        lost = group.await_primary()
        before = group.status(lost)["node"]
        lost.kill()
        shutil.rmtree(lost.folder)
        flowing.await_more()
        lost.start()

        def is_in_the_set() -> bool:
            node = group.primary()
            return node is not None and group.status(lost)["node"] in group.status(node)["register"]["sync"]

        await_true(is_in_the_set, "a new copy is in the set")
        assert group.status(lost)["node"] != before
        flowing.await_more()
        flowing.end()


def test_each_node_is_restarted_as_an_upgrade_does_it_and_nothing_is_lost(group: Group) -> None:
    with traffic(group.url) as flowing:
        flowing.await_more()
        primary = group.await_primary()
        for node in (*(node for node in group.nodes if node is not primary), primary):
            node.stop()
            flowing.await_more()
            node.start()
            group.await_whole()
        assert group.primary() is not primary
        flowing.end()


def test_a_node_ends_by_a_signal(group: Group) -> None:
    for node in group.nodes:
        node.stop()
    assert all("delaymq: stopped" in node.said() for node in group.nodes)


def test_nobody_takes_over_by_a_register_of_another_coordinator_until_an_operator_confirms(group: Group) -> None:
    register = group.folder / "register"
    found = json.loads(register.read_text())
    found["coordinator"] = found["coordinator"] % 2**32 + 1
    found["version"] += 1
    restored = group.folder / "restored"
    restored.write_text(json.dumps(found))
    restored.replace(register)
    await_true(lambda: all(group.status(node)["awaits_confirmation"] for node in group.nodes), "they have seen it")
    first = next(node for node in group.nodes if group.status(node)["role"] == "primary")
    first.kill()
    time.sleep(PAUSE_SECONDS)
    others = [node for node in group.nodes if node is not first]
    assert all(group.status(node)["role"] == "replica" for node in others)
    shown = command("cluster", "status", "--http", f"http://{others[0].http_address}", *group.settings[0]).stdout
    assert f"`delaymq cluster confirm {found['coordinator']}`" in shown
    for node in others:
        ended = group.ask(node, "confirm", str(found["coordinator"]))
        assert ended.returncode == 0, ended.stderr
    group.await_primary(other_than=first)


def served_in_vain(group: Group, place: int, *more: str) -> str:
    """The one line of a node that cannot start."""
    node = group.nodes[place]
    ports = ("--set", "server.port=0", "--set", "http.port=0")
    return refused(3, "serve", "--store", str(node.folder), *ports, *group.settings[place], *more)


def test_a_node_without_a_group_is_refused(tmp_path: Path) -> None:
    with Group(tmp_path, in_file(tmp_path)) as group:
        assert "delaymq cluster create" in served_in_vain(group, 0)
        assert not (group.nodes[0].folder / "log").exists()
        ended = command("cluster", "status", "--http", "http://127.0.0.1:1", *group.settings[0])
        assert ended.returncode == 8
        assert "holds no group" in ended.stdout


def test_the_register_of_another_group_is_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    with Group(one, in_file(one)) as group, Group(other, in_file(other)) as another:
        made, foreign = group.create(), another.create()
        assert "holds a group already" in refused(
            3, "cluster", "create", "--store", another.nodes[1].folder, *group.settings[0]
        )
        line = served_in_vain(group, 0, *in_file(other))
        assert made["stream"] in line
        assert foreign["stream"] in line
        assert "is of the stream" in line


def test_a_closed_store_becomes_the_first_copy_and_is_opened_by_nothing_else(tmp_path: Path) -> None:
    with Group(tmp_path, in_file(tmp_path)) as group:
        folder = group.nodes[0].folder
        with delaymq.open(folder, segment_bytes=4 << 20) as store:
            store.publish("order", b"of before", delay=3600)
            refused(5, "cluster", "create", "--store", folder, *group.settings[0])
        group.start()
        with delaymq.connect(group.url, timeout=PATIENCE_SECONDS) as client:
            assert client.status().pending == 1
        for node in group.nodes:
            node.kill()
        with pytest.raises(delaymq.DelaymqError):
            delaymq.open(folder).close()


def test_a_copied_folder_does_not_make_a_second_node(group: Group) -> None:
    primary = group.await_primary()
    copied, source = [node for node in group.nodes if node is not primary]
    source.stop()
    copied.stop()
    shutil.rmtree(copied.folder)
    shutil.copytree(source.folder, copied.folder)
    source.start()
    await_true(lambda: group.status(primary)["accepts_publishes"], "two nodes go on")
    copied.start()
    words = "the other node has the same id, so the folder of one of them is a copy of the other's"
    await_true(lambda: words in copied.said() or words in source.said(), "it is said")
    await_true(lambda: len(group.status(primary)["register"]["sync"]) == 2, "both have one id, and count once")
    # They also take each other's connections, which holds up the group.
    copied.kill()
    with delaymq.connect(primary.url, timeout=PATIENCE_SECONDS) as client:

        def is_stored() -> bool:
            with contextlib.suppress(delaymq.NotEnoughCopies):
                client.publish("order", b"1", message_id="one", deduplicate=True)
                return True
            return False

        await_true(is_stored, "the group goes on")


def test_a_group_whose_register_is_in_etcd(tmp_path: Path) -> None:
    with in_etcd(tmp_path) as register, Group(tmp_path, register) as group:
        group.start()
        with traffic(group.url) as flowing:
            flowing.await_more()
            first = group.await_primary()
            first.kill()
            group.await_primary(other_than=first)
            flowing.await_more()
            first.start()
            group.await_whole()
            flowing.end()


def test_an_etcd_that_does_not_answer_is_said(tmp_path: Path) -> None:
    register = ("--set", "cluster.register=etcd:a", "--set", "cluster.etcd=http://127.0.0.1:1")
    with Group(tmp_path, register) as group:
        node = group.nodes[0]
        line = refused(8, "cluster", "create", "--store", node.folder, *group.settings[0])
        assert "no endpoint of the coordinator answers" in line


def test_a_store_that_answers_os_cannot_be_a_copy(tmp_path: Path) -> None:
    with Group(tmp_path, in_file(tmp_path)) as group:
        place = ("--store", str(group.nodes[0].folder), *group.settings[0], "--set", "store.durability=os")
        for verb in (("serve",), ("cluster", "create")):
            assert 'expected "disk" in a cluster, found "os"' in refused(2, *verb, *place)
        assert not group.nodes[0].folder.exists()


def test_an_address_that_is_taken_is_named(group: Group) -> None:
    stopped = next(node for node in group.nodes if node is not group.await_primary())
    taken = next(
        chosen[1].removeprefix("cluster.listen=")
        for node, chosen in zip(group.nodes, group.settings, strict=True)
        if node is not stopped
    )
    stopped.stop()
    place = group.nodes.index(stopped)
    ports = ("--set", "server.port=0", "--set", "http.port=0", "--set", f"cluster.listen={taken}")
    settings = [*group.settings[place], "--set", "cluster.peers=", *ports]
    line = refused(2, "serve", "--store", str(stopped.folder), *settings)
    assert f"cluster.listen: expected an address that can be listened on, found {taken}" in line


def test_the_log_of_a_node_is_json(tmp_path: Path) -> None:
    with Group(tmp_path, in_file(tmp_path), [HERE]) as group:
        group.create(min_copies=1)
        node = group.nodes[0]
        node.start()
        group.await_primary()
        node.stop()
        whole = ["serve", "--store", str(node.folder), *group.settings[0], "--log", "json"]
        process = subprocess.Popen(
            arguments_of(*whole, "--set", "server.port=0", "--set", "http.port=0"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    events = [json.loads(line)["event"] for line in said.splitlines()]
    assert {"start", "node_listening", "listening", "node", "drain", "stopped"} <= set(events)
