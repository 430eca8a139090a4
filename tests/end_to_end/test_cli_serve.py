"""serve: a store behind sockets, from its first line to its last."""

from __future__ import annotations

import json
import platform
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import delaymq
from commanding import ANY_PORTS, arguments_of, environment, refused
from refused_syncs import REFUSE_SYNCS

MAGIC = 0xDEC10ADE
SEND = 10
PATIENCE_SECONDS = 20


# A store that takes its time to be closed, and says so; and a process that takes its time to end.
CLOSED_SLOWLY = """
import contextlib, sys, time
from delaymq.cli import main
from delaymq.cli.verbs import serve
opened = serve.open_store
@contextlib.contextmanager
def open_store(*places, **choices):
    with opened(*places, **choices) as store:
        yield store
        print("closing", file=sys.stderr, flush=True)
        time.sleep(0.3)
serve.open_store = open_store
code = main()
print("ending", file=sys.stderr, flush=True)
time.sleep(0.3)
sys.exit(code)
"""


@contextmanager
def served(folder: Path, *before: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    asked = ("serve", "--store", str(folder), "--json", *ANY_PORTS)
    whole = [*before, *asked] if before else arguments_of(*asked)
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def connected(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def sent(connection: socket.socket, subject: str, message_id: str) -> bytes:
    """Sends one message of QMQ, due now; the answer, whole."""
    body = text("qmq_createTime") + text("1700000000000") + text("body") + text("hello")
    message = struct.pack(">bqq", 0, 1, 1) + text(subject) + text(message_id) + struct.pack(">i", len(body)) + body
    body = struct.pack(">q", zlib.crc32(message)) + message
    connection.sendall(struct.pack(">ihIhhiih", len(body) + 20, 18, MAGIC, SEND, 9, 7, 0, SEND) + body)
    answer = connection.recv(4096)
    while len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
        answer += connection.recv(4096)
    return answer


def page(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("server.port={taken}",), "server.port: expected an address that can be listened on, found 127.0.0.1:{taken}"),
        (("server.port=0", "http.port={taken}"), "expected an address that can be listened on"),
        (("server.host=192.0.2.1", "server.token_hash=sha256:" + "0" * 64), "server.advertised_address"),
        (("server.host=nowhere",), "server.host: expected an IP address"),
        (("server.host=0.0.0.0",), "server.token_hash"),
        (("server.advertised_address=no port", "server.port=0", "http.port=0"), "advertised_address"),
    ],
)
def test_what_cannot_be_served_makes_no_store(tmp_path: Path, settings: tuple[str, ...], words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = listening.getsockname()[1]
        pairs = [part for pair in settings for part in ("--set", pair.format(taken=taken))]
        line = refused(2, "serve", "--store", tmp_path / "store", *pairs)
    assert words.format(taken=taken) in line
    assert not (tmp_path / "store").exists()


def test_a_served_store_keeps_what_was_sent_and_ends_by_a_signal(tmp_path: Path) -> None:
    with served(tmp_path / "store") as (process, where):
        assert page(where["http_address"], "/meta/address") == where["address"]
        with connected(where["address"]) as connection:
            assert sent(connection, "order", "id-1").hex() == "000000140012dec10ade000000090000000700000001000a"
            refused(5, "publish", "order", "x", "--store", tmp_path / "store")
            process.send_signal(signal.SIGTERM)
            assert connection.recv(1) == b"", "the connection is closed"
        assert process.wait(PATIENCE_SECONDS) == 0
    with delaymq.open(tmp_path / "store") as store:
        assert store.status().ready == 1
        with store.subscribe("order", group="billing") as messages:
            message = messages.get(PATIENCE_SECONDS)
            assert message is not None
            assert (message.message_id, message.tags, message.body) == ("id-1", (), b"hello")
            assert message.attributes == {"qmq_createTime": "1700000000000"}
            message.ack()


def test_a_second_signal_ends_the_waiting(tmp_path: Path) -> None:
    with served(tmp_path / "store") as (process, where), connected(where["address"]) as connection:
        # A frame that is never completed is nothing under way.
        connection.sendall(struct.pack(">ihI", 100, 18, MAGIC))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["closing", "ending"])
def test_a_signal_while_the_store_is_closed_and_after_changes_nothing(
    moment: str, number: signal.Signals, tmp_path: Path
) -> None:
    with served(tmp_path / "store", sys.executable, "-c", CLOSED_SLOWLY) as (process, where):
        with connected(where["address"]) as connection:
            sent(connection, "order", "id-1")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = ""
        while f"{moment}\n" not in said:
            said += process.stderr.readline()
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr.read().splitlines() == (["delaymq: stopped", "ending"] if moment == "closing" else [])
    with delaymq.open(tmp_path / "store") as store:
        assert store.status().ready == 1


def test_a_place_that_cannot_be_listened_on_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        pairs = ("--set", f"server.port={port}", "--set", "http.port=0")
        line = refused(2, "serve", "--store", tmp_path / "store", *pairs)
        assert "server.port" in line
        assert str(port) in line
    for pair in ("server.host=localhost", "http.host=localhost", "server.advertised_address=nowhere"):
        line = refused(2, "serve", "--store", tmp_path / "store", *ANY_PORTS, "--set", pair)
        assert pair.split("=", maxsplit=1)[0].removeprefix("server.") in line
    for key in ("server.host", "http.host"):
        line = refused(2, "serve", "--store", tmp_path / "store", *ANY_PORTS, "--set", f"{key}=0.0.0.0")
        assert "server.token_hash" in line
        hashed = "server.token_hash=sha256:" + "0" * 64
        line = refused(2, "serve", "--store", tmp_path / "store", "--set", f"{key}=0.0.0.0", "--set", hashed)
        assert "server.advertised_address" in line
    assert "server.port" in refused(2, "serve", "--store", tmp_path / "store", "--set", "server.port=70000")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has the numbers of x86-64")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_server_whose_disk_failed_says_so_and_ends(log_format: str, tmp_path: Path) -> None:
    code = """
        import sys, threading
        from delaymq.cli import main
        def break_the_disk():
            sys.stdin.readline()
            refuse_syncs()
            print("refused", flush=True)
        threading.Thread(target=break_the_disk, daemon=True).start()
        sys.exit(main(["serve", "--json", *sys.argv[1:]]))
    """
    whole = [sys.executable, "-c", textwrap.dedent(REFUSE_SYNCS) + textwrap.dedent(code)]
    process = subprocess.Popen(
        [*whole, "--store", str(tmp_path / "store"), *ANY_PORTS, "--log", log_format],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        where = json.loads(process.stdout.readline())
        with connected(where["address"]) as connection:
            assert len(sent(connection, "order", "good")) == 24, "all is stored"
            process.stdin.write("\n")
            process.stdin.flush()
            said = process.stdout.readline()
            if said.startswith("no filter"):
                pytest.skip(said)
            # What cannot be stored is listed, to be sent again.
            answer = sent(connection, "order", "lost")
            assert answer[24:36] == text("lost") + struct.pack(">i", 6) + answer[34:36]
            _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 3, errors
        assert "must be opened again" in errors
        if log_format == "json":
            events = {one["event"]: one for one in map(json.loads, errors.splitlines())}
            assert (events["poisoned"]["level"], events["failed"]["error"]) == ("error", "Poisoned")
            assert "order" not in errors, "no subject, no body"
    finally:
        process.kill()
        process.communicate()
    with delaymq.open(tmp_path / "store") as store:
        assert store.status().ready in (1, 2), "the one that was stored, and perhaps the one in doubt"
