"""Ten thousand subjects and a thousand groups, delaymq's own and QMQ's: what they take, and what is delivered."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from commanding import uncounted
from qmq_client.bodies import Consumer, Pull
from qmq_client.connection import Connection
from qmq_client.frame import SUCCESS
from qmq_client.message import Message
from serving import DELIVER, PUBLISH, SUBSCRIBE, Peer, Served, deliveries, frame, publish, serving, subscribe

MEBI = 1 << 20
SUBJECTS = 10_000
OWN_GROUPS = 500
QMQ_GROUPS = 500
GROUPS = OWN_GROUPS + QMQ_GROUPS
PIPELINED = 200  # requests under way; a connection may have more
# However many there are: threads of the pool, segments that are prepared, runs that a checkpoint writes.
THREADS_MAX = 24
FILES_MAX = 48
# Names, cursors, consumers, connections and what came since the last checkpoint.
BYTES_MAX = 64 * MEBI

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counted as Linux shows them")


@dataclass(frozen=True)
class Taken:
    """What a process has of the system."""

    threads: int
    open_files: int
    files: int
    memory_bytes: int

    @classmethod
    def by(cls, served: Served, folder: Path) -> Taken:
        own = Path(f"/proc/{served.process.pid}")
        return cls(
            threads=len(list((own / "task").iterdir())),
            open_files=len(list((own / "fd").iterdir())),
            files=sum(1 for path in folder.rglob("*") if path.is_file()),
            memory_bytes=served.memory_bytes(),
        )

    def check(self, before: Taken, connections: int) -> None:
        """Makes sure that nothing was taken for each subject or group."""
        print(f"{before} became {self}")  # noqa: T201 - the figures are wanted
        assert self.threads - before.threads <= THREADS_MAX
        assert self.open_files - before.open_files <= FILES_MAX + connections
        assert self.files - before.files <= FILES_MAX
        assert self.memory_bytes - before.memory_bytes <= BYTES_MAX


def name(number: int) -> str:
    return f"many.{number}"


def asked(peer: Peer, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Sends requests, many under way at once; the bodies of the DELIVERs that came meanwhile."""
    for first in range(0, len(requests), PIPELINED):
        part = requests[first : first + PIPELINED]
        peer.send(b"".join(part))
        left = len(part)
        while left:
            code, _, _, body = peer.receive()
            if code == DELIVER:
                yield code, body
                continue
            assert code == 0, (code, body)
            left -= 1


def publish_to_all(peer: Peer, mark: str) -> Iterator[tuple[int, bytes]]:
    """One message to each subject, whose body names both."""
    bodies = (f"{mark} {name(number)}".encode() for number in range(SUBJECTS))
    return asked(peer, [frame(PUBLISH, publish(name(n), [body], 0)) for n, body in enumerate(bodies)])


class Own:
    """A connection with a subscription for each group of delaymq's own."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.came: dict[int, list[str]] = defaultdict(list)

    def subscribe(self) -> None:
        wanted = [subscribe(number, name(number), "own", 16, 16) for number in range(OWN_GROUPS)]
        for _, body in asked(self.peer, [frame(SUBSCRIBE, one) for one in wanted]):
            self.take(body)

    def take(self, body: bytes) -> None:
        (number,) = struct.unpack_from(">I", body)
        _, messages = deliveries(body)
        self.came[number] += [message.body.decode() for message in messages]

    def take_until(self, each: int) -> None:
        """Receives until every subscription has so many."""
        while any(len(self.came[number]) < each for number in range(OWN_GROUPS)):
            code, _, _, body = self.peer.receive()
            assert code == DELIVER, (code, body)
            self.take(body)


def consumers() -> list[Consumer]:
    return [Consumer(name(number), "group", "host@@one") for number in range(OWN_GROUPS, GROUPS)]


def pulled(connection: Connection, hold_ms: int) -> list[list[str]]:
    """What each group of QMQ is given, all asked for at once; acknowledged, too."""
    found = []
    for first in range(0, QMQ_GROUPS, PIPELINED):
        part = consumers()[first : first + PIPELINED]
        opaques = [connection.ask_pull(Pull(consumer, hold_ms=hold_ms)) for consumer in part]
        for consumer, opaque in zip(part, opaques, strict=True):
            run = connection.pulled(opaque)
            found.append([] if run is None else [message.message_id for message in run.messages])
            if run is not None:
                assert connection.acknowledge(consumer, run.first, run.last) == SUCCESS
    return found


EMBEDDED = """
    import json, os, sys, delaymq
    from pathlib import Path
    folder = Path(sys.argv[1])
    def threads():
        return len(os.listdir("/proc/self/task"))
    before = threads()
    with delaymq.open(folder) as store:
        taken = {"threads": threads() - before, "files": sum(1 for path in folder.rglob("*") if path.is_file())}
        groups = [group for group in store.groups() if group.name in ("own", "group")]
        taken["groups"] = len(groups)
        taken["owed"] = sum(group.lag for group in groups if group.name == "own")
        with store.subscribe("many.7", group="own") as messages:
            taken["again"] = [messages.get(5).body.decode() for _ in range(2)]
        with store.subscribe("many.9999", group="late") as messages:
            first, second = messages.get(5), messages.get(5)
            taken["late"] = [first.body.decode(), second.message_id]
    print(json.dumps(taken))
"""


def test_many_subjects_and_groups_take_no_file_and_no_thread_each(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    # One that has all those subscriptions, and pings nobody, reads when the others are done.
    with serving(folder, "--set", "server.silence_seconds=3600") as served:
        before = Taken.by(served, folder)
        # A connection that says nothing for long is closed, so each is made when it is used.
        with served.connect() as publisher, served.connect() as peer, contextlib.ExitStack() as connected:
            assert not list(publish_to_all(publisher, "first"))
            own = Own(peer)
            own.subscribe()
            own.take_until(1)
            client = connected.enter_context(Connection(served.address))
            assert pulled(client, -1) == [[]] * QMQ_GROUPS, "they begin with the next message"
            sent = [Message(name(number), f"id-{number}") for number in range(OWN_GROUPS, SUBJECTS)]
            for first in range(0, len(sent), 500):
                assert client.send(*sent[first : first + 500]) == ()
            assert not list(publish_to_all(publisher, "second"))
            own.take_until(2)
            Taken.by(served, folder).check(before, connections=3)
            expected = [[f"first {name(number)}", f"second {name(number)}"] for number in range(OWN_GROUPS)]
            assert [own.came[number] for number in range(OWN_GROUPS)] == expected
            given = pulled(client, 20_000)
            assert [ids[0] for ids in given] == [f"id-{number}" for number in range(OWN_GROUPS, GROUPS)]
            assert all(len(ids) == 2 for ids in given), "and what was published beside it"
        served.process.terminate()
        assert served.process.wait(60) == 0
    files = sum(1 for path in folder.rglob("*") if path.is_file())
    code = textwrap.dedent(EMBEDDED)
    ended = subprocess.run(
        [sys.executable, "-c", code, os.fspath(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=uncounted(),
    )
    assert ended.returncode == 0, ended.stderr
    taken = json.loads(ended.stdout)
    assert taken["threads"] <= THREADS_MAX
    assert taken["files"] <= files + FILES_MAX
    assert (taken["groups"], taken["owed"]) == (GROUPS, 2 * OWN_GROUPS), "nothing of its own was acknowledged"
    assert taken["again"] == ["first many.7", "second many.7"]
    assert taken["late"] == ["first many.9999", "id-9999"]
