"""Clients whose server is killed, whose bytes are cut anywhere, and whose answers come late, twice or never."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import delaymq
import serving
from boundary.remote import Remote
from delaymq import AmbiguousError
from faces import Served
from proxies import HELLO, STATUS, answer, error_body, frames, hello_answer, played

PATIENCE_S = 60
THREADS = 64
EACH = 12  # messages of a thread
KILLS = 3
CUTS = 420  # bytes of one direction: more than hello, three publishes and their answers
SOON_S = 0.2


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def client_threads() -> int:
    """Threads of clients in this process."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += (task / "comm").read_text() == "delaymq-client\n"
    return found


def test_a_server_that_is_killed_under_64_threads_stores_nothing_twice_and_loses_nothing(
    process: serving.Served,
) -> None:
    before = descriptors()
    answered = Counter[bytes]()

    def publish(client: delaymq.Client, name: int) -> None:
        for number in range(EACH):
            body = b"%d %d" % (name, number)
            receipt = client.publish("a", body)
            assert receipt.size == len(body)
            answered[body] += 1

    clients = [delaymq.connect(process.url, deduplicate=True, timeout=PATIENCE_S) for _ in range(THREADS // 4)]
    with ThreadPoolExecutor(THREADS) as threads:
        publishing = [threads.submit(publish, clients[name // 4], name) for name in range(THREADS)]
        for kill in range(KILLS):
            while len(answered) < (kill + 1) * THREADS * EACH // (KILLS + 1):
                time.sleep(0.002)
            process.kill()
            process.start()
        for one in publishing:
            one.result(PATIENCE_S)
    for client in clients:
        client.close()
    stored = Counter[bytes]()
    with (
        delaymq.connect(process.url) as consumer,
        consumer.subscribe("a", group="g") as messages,
    ):
        for batch in messages.batches(1_000, PATIENCE_S):
            stored.update(message.body for message in batch if not message.redelivered)
            messages.ack(batch)
            if stored.total() >= answered.total():
                break
        assert messages.get(SOON_S) is None
    assert stored == answered
    assert set(answered.values()) == {1}
    assert client_threads() == 0
    assert descriptors() <= before


class Cutting:
    """A relay that cuts its first connection after so many bytes of one direction, and no other."""

    def __init__(self, url: str, *, to_client: bool, after: int) -> None:
        host, _, port = url.removeprefix("delaymq://").partition(":")
        self._server = (host, int(port))
        self._to_client = to_client
        self._left: int | None = after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"delaymq://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._ends += client, server
                left, self._left = self._left, None
                for source, to, limit in (
                    (client, server, None if self._to_client else left),
                    (server, client, left if self._to_client else None),
                ):
                    thread = threading.Thread(target=_carry, args=(source, to, limit), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for end in self._ends:
            end.close()


def _carry(source: socket.socket, to: socket.socket, left: int | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            if left is not None:
                data, left = data[:left], left - len(data)
            to.sendall(data)
            if left is not None and left <= 0:
                break
    for end in (source, to):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("to_client", [True, False])
def test_a_connection_that_is_cut_after_any_byte_loses_nothing_and_stores_nothing_twice(
    folder: Path, to_client: bool
) -> None:
    served = Served(folder)
    before = descriptors()
    unreachable: list[int] = []

    def use(after: int) -> int:
        """Three publishes over a connection that is cut; the number of those that were answered."""
        relay = Cutting(served.url, to_client=to_client, after=after)
        try:
            try:
                client = delaymq.connect(relay.url, deduplicate=True, timeout=PATIENCE_S)
            except delaymq.Unreachable:
                unreachable.append(after)  # the hello was cut
                return 0
            with client:
                receipts = [client.publish("a", b"%d %d" % (after, number), delay=3600) for number in range(3)]
                assert len(set(receipts)) == 3
                return 3
        finally:
            relay.close()

    with ThreadPoolExecutor(8) as threads:
        answered = sum(threads.map(use, range(CUTS)))
    assert unreachable
    assert len(unreachable) < CUTS // 2, "the publishes were cut as well"
    assert served.store.status().pending == answered
    assert client_threads() == 0
    while descriptors() > before:  # the server closes its ends by itself
        time.sleep(0.01)
    served.close()


def status_of(answers: Callable[[int], list[bytes]]) -> Callable[[socket.socket, int], None]:
    """A server that answers a status with these frames."""

    def play(connection: socket.socket, _number: int) -> None:
        for code, opaque, _of, _whole in frames(connection):
            if code == HELLO:
                connection.sendall(hello_answer(opaque))
            elif code == STATUS:
                connection.sendall(b"".join(answers(opaque)))

    return play


def refusal(opaque: int, words: str) -> bytes:
    return answer(STATUS, opaque, error_body(words), code=1031)


def test_an_answer_that_comes_twice_is_taken_once(remote: Remote) -> None:
    asked: list[int] = []

    def answers(opaque: int) -> list[bytes]:
        asked.append(opaque)
        return [refusal(opaque, f"answer {len(asked)}")] * 2

    with played(status_of(answers)) as url, remote.connected(url, timeout=PATIENCE_S) as client:
        for number in (1, 2, 3):
            with pytest.raises(delaymq.Busy, match=f"answer {number}"):
                remote.call(client.status)


def test_an_answer_that_comes_late_is_not_that_of_the_next_request(remote: Remote) -> None:
    late: list[int] = []

    def answers(opaque: int) -> list[bytes]:
        late.append(opaque)
        return [] if len(late) == 1 else [refusal(late[0], "late"), refusal(opaque, "in time")]

    with played(status_of(answers)) as url, remote.connected(url, timeout=SOON_S) as client:
        with pytest.raises(delaymq.TimedOut):
            remote.call(client.status)
        with pytest.raises(delaymq.Busy, match="in time"):
            remote.call(client.status)


def test_an_answer_that_never_comes_leaves_a_publish_in_doubt(remote: Remote) -> None:
    def play(connection: socket.socket, _number: int) -> None:
        for code, opaque, _of, _whole in frames(connection):
            if code == HELLO:
                connection.sendall(hello_answer(opaque))

    with (
        played(play) as url,
        remote.connected(url, timeout=SOON_S) as client,
        pytest.raises(AmbiguousError, match="did not answer within"),
    ):
        remote.call(lambda: client.publish("a", b"1"))
