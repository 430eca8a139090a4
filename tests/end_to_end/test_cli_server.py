"""The command over a server: what goes wrong between the two, and how that is told."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import delaymq
from commanding import arguments_of, command, environment, on_terminal, refused
from crafting import wait_until
from places import SERVED, place_over
from ports import lone_port
from serving import Served, serving

HEADER = struct.Struct(">ihIhhiih")
MAGIC = 0xDEC10ADE
PUBLISH = 202
UNAUTHORIZED = 1030
PATIENCE_SECONDS = 20

Peer = Callable[[socket.socket], None]


@contextmanager
def peer(serve: Peer) -> Iterator[str]:
    """The URL of one that does what it likes with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"delaymq://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_SECONDS)


def frame_of(connection: socket.socket) -> bytes:
    """The next frame, whole; nothing at the end."""
    found = b""
    while len(found) < 4 or len(found) < 4 + struct.unpack(">i", found[:4])[0]:
        piece = connection.recv(65536)
        if not piece:
            return b""
        found += piece
    return found


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command beside the test, which ends at the latest with it."""
    with subprocess.Popen(
        arguments_of(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("verb", SERVED)
def test_where_nobody_listens_the_code_says_so(verb: str) -> None:
    url = f"delaymq://127.0.0.1:{lone_port()}"
    line = refused(8, *verb.split(), *SERVED[verb], "--server", url)
    assert line == f"delaymq: no server answers at {url}: [Errno 111] Connection refused"


def test_one_that_is_no_server_is_told() -> None:
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"220 mail.example ready\r\n")
        frame_of(connection)

    with peer(greet) as url:
        assert "what no delaymq server sends" in refused(8, "status", "--server", url)


def test_an_address_that_is_none_is_refused() -> None:
    for url in ("127.0.0.1:20801", "http://127.0.0.1", "delaymq://", "delaymq://a:99999", ""):
        assert "expected delaymq://host:port" in refused(2, "status", "--server", url)
    line = refused(2, "status", "--server", "delaymq://a:1,b:x")
    assert line == "delaymq: url: expected delaymq://host:port,host:port, found 'b:x'"


def test_a_verb_finds_the_node_that_answers(tmp_path: Path) -> None:
    with place_over(tmp_path / "store", "server") as place:
        url = f"delaymq://127.0.0.1:{lone_port()},{place[1].removeprefix('delaymq://')}"
        assert command("publish", "a", "x", "--server", url).returncode == 0
        assert json.loads(command("status", "--json", "--server", url).stdout)["ready"] == 1


def test_the_token_of_a_file_is_sent_and_a_refusal_has_its_code(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def turn_away(connection: socket.socket) -> None:
        frame = frame_of(connection)
        heard.append(frame)
        total, size, magic, code, version, opaque, _flags, _of = HEADER.unpack_from(frame)
        assert (total + 4, size, magic) == (len(frame), 18, MAGIC)
        words = b"the token is wrong"
        body = struct.pack(">I", len(words)) + words + bytes(1)
        answer = HEADER.pack(len(body) + 20, 18, MAGIC, UNAUTHORIZED, version, opaque, 1, code)
        connection.sendall(answer + body)

    file = tmp_path / "token"
    file.write_text("dmqt_word\n")
    with peer(turn_away) as url:
        line = refused(9, "status", "--server", url, "--token-file", file)
        assert "token" in line
        assert refused(9, "status", DELAYMQ_CLIENT__SERVER=url, DELAYMQ_CLIENT__TOKEN_FILE=str(file)) == line
        refused(9, "status", "--server", url)
    assert [frame.endswith(b"\x00\x09dmqt_word") for frame in heard] == [True, True, False]
    assert "dmqt_word" not in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"", "expected a token, found nothing"),
        (b"\n", "expected a token, found nothing"),
        (b"x" * 1025, "expected a token of at most 1,024 bytes, found more"),
        (b"one\ntwo\n", "expected one line with a token, found several"),
    ],
)
def test_a_file_that_holds_no_token_is_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert f"{file}: {words}" in refused(2, "status", "--server", "delaymq://127.0.0.1:1", "--token-file", file)


def last_but_reports(said: str) -> str:
    """The last line but for reports of a lost connection, which may come before an error or after it."""
    return [line for line in said.splitlines() if " was lost: the server at " not in line][-1]


def test_an_answer_that_is_lost_has_its_code(tmp_path: Path) -> None:
    """The server has stored it, and the connection is cut before its answer is through."""
    with place_over(tmp_path / "store", "server") as place:
        host, port = place[1].removeprefix("delaymq://").split(":")

        def cut(connection: socket.socket) -> None:
            with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as behind:
                while frame := frame_of(connection):
                    behind.sendall(frame)
                    answer = frame_of(behind)
                    if HEADER.unpack_from(frame)[3] == PUBLISH:
                        return
                    connection.sendall(answer)

        with peer(cut) as url:
            ended = command("publish", "a", "x", "--server", url)
            assert (ended.returncode, ended.stdout) == (10, "")
            assert "before the answer came: it may have been done or not" in last_but_reports(ended.stderr)
            given = b'{"body": "1"}\n{"body": "2"}\n'
            ended = command("publish", "a", "--jsonl", "-", "--server", url, given=given)
            assert ended.returncode == 10
            assert "delaymq: lines 1 and following: " in last_but_reports(ended.stderr)
        assert json.loads(command("status", "--json", *place).stdout)["ready"] == 3


@pytest.mark.usefixtures("uncounted_processes")
def test_a_server_that_says_nothing_is_given_up_at_ctrl_c() -> None:
    with (
        peer(lambda connection: void(frame_of(connection) and frame_of(connection))) as url,
        running("status", "--server", url) as process,
    ):
        assert process.stderr is not None
        wait_until(lambda: sigint_is_handled(process.pid), seconds=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
        assert process.stderr.read() == ""


def void(_anything: object) -> None:
    """Ends a lambda."""


def sigint_is_handled(pid: int) -> bool:
    """True once the command has begun: it handles SIGTERM, too."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "store") as served:
        yield served


def test_a_consumer_goes_on_after_its_server_was_killed(daemon: Served) -> None:
    assert command("publish", "a", "1", *daemon.place).returncode == 0
    with running("consume", "a", "--group", "g", "--count", "2", "--jsonl", *daemon.place) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["body"] == "1"
        # An acknowledgement is durable at the latest when the group says so.
        wait_until(lambda: json.loads(command("status", "--json", *daemon.place).stdout)["ready"] == 0, seconds=20)
        daemon.kill()
        assert "was lost" in process.stderr.readline()
        daemon.start()
        assert command("publish", "a", "2", *daemon.place).returncode == 0
        assert json.loads(process.stdout.readline())["body"] == "2"
        code, said = process.wait(PATIENCE_SECONDS), process.stderr.read()
    # Whether the server had told that the first was durable is a matter of a second.
    assert (code, said) == (0, "") or (code == 10 and "may come again" in said)
    ended = command("consume", "a", "--group", "g", "--until-empty", *daemon.place)
    assert (ended.returncode, ended.stdout) == (0, "")


@pytest.mark.slow
def test_an_empty_group_is_not_told_of_by_a_server_that_is_gone(daemon: Served) -> None:
    chosen = ("--no-ack", "--until-empty", "--idle", "10s", "--set", "client.timeout_seconds=5")
    assert command("publish", "a", "1", *daemon.place).returncode == 0
    with running("consume", "a", "--group", "g", *chosen, *daemon.place) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "1\n"
        daemon.kill()
        assert (process.wait(60), process.stdout.read()) == (8, "")
        warned, failed = process.stderr.read().splitlines()
        assert "was lost" in warned
        assert failed.startswith("delaymq: no connection to ")


@pytest.mark.usefixtures("uncounted_processes")
def test_ctrl_c_ends_a_consumer_whose_server_is_gone(daemon: Served) -> None:
    assert command("groups", "start", "a", "g", *daemon.place).returncode == 0
    with on_terminal("consume", "a", "--group", "g", *daemon.place) as terminal:
        # Two Pythons start meanwhile, that of the consumer and that which looks.
        listed = ("groups", "list", "--json", *daemon.place)
        wait_until(lambda: '"consumer_count": 1' in command(*listed).stdout, seconds=60)
        daemon.kill()
        terminal.read_until(b"was lost")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert b"Traceback" not in terminal.shown


def test_nothing_is_done_where_nobody_can_be_told(tmp_path: Path) -> None:
    with place_over(tmp_path / "store", "server") as place:
        line = f"{' '.join(arguments_of('publish', 'a', 'x', *place))} >&-"
        ended = subprocess.run(["bash", "-c", line], capture_output=True, check=False, env=environment())
        assert ended.returncode == 3
        line = f"{' '.join(arguments_of('publish', 'b', 'x', *place))} 2>&- <&-"
        ended = subprocess.run(["bash", "-c", line], capture_output=True, check=False, env=environment())
        assert ended.returncode == 0
        said = command("consume", "a", "--group", "g", "--until-empty", *place)
        assert (said.returncode, said.stdout) == (0, "")
        assert json.loads(command("status", "--json", *place).stdout)["ready"] == 1


def test_the_configuration_names_a_server(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    with place_over(tmp_path / "store", "server") as place:
        file.write_text(f"client.server = '{place[1]}'\nconsume.group = 'g'\nstore.durability = 'os'\n")
        assert command("publish", "a", "x", "--config", file).returncode == 0
        ended = command("consume", "a", "--count", "1", "--timeout", "30s", DELAYMQ_CONFIG=str(file))
        assert (ended.returncode, ended.stdout) == (0, "x\n")
        ended = command("consume", "a", "--until-empty", DELAYMQ_CONFIG=str(file))
        assert (ended.returncode, ended.stdout) == (0, "")
        with delaymq.open(tmp_path / "other") as other:
            other.publish("a", b"other")
        ended = command("consume", "a", "--until-empty", "--config", file, "--store", tmp_path / "other")
        assert (ended.returncode, ended.stdout) == (0, "other\n")
        both = ("--config", file, "--set", f"store.path={tmp_path / 'other'}")
        line = refused(2, "consume", "a", *both)
        assert line == (
            f"delaymq: two stores: store.path (--set store.path) and client.server ({file}) are configured; "
            "say --store DIR or --server URL"
        )
        assert command("status", *both, *place).returncode == 0
    words = "a store in a folder asks for no token"
    assert words in refused(2, "status", "--store", tmp_path / "other", "--token-file", os.devnull)
