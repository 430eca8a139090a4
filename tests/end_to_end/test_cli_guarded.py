"""serve on an address that others reach: the token, where QMQ's clients come from, and what is logged of the rest."""

from __future__ import annotations

import json
import resource
import signal
import socket
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from places import SERVED
from serving import HELLO, PING, Served, frame, hello, qmq_message, serving

SEND = 10
UNAUTHORIZED, BUSY = 1030, 1031
OPEN = ("--set", "server.host=0.0.0.0", "--set", "server.advertised_address=queue.example:20801", "--log", "json")
CONSUMER = "clientId=host%40%401&subject=order&consumerGroup=g"


def made(*arguments: str) -> tuple[str, str]:
    """A token, and the setting with its hash."""
    said = json.loads(command("token", "--json", *arguments).stdout)
    assert set(said) == {"token", "key", "hash"}
    return said["token"], f"{said['key']}={said['hash']}"


def told(served: Served) -> list[dict[str, object]]:
    """What it logged, once it has been ended."""
    served.process.send_signal(signal.SIGTERM)
    return [json.loads(line) for line in served.errors().splitlines()]


def test_a_token_is_shown_once_with_the_line_for_the_server() -> None:
    first, second = (command("token").stdout.splitlines() for _ in range(2))
    assert first != second
    token = first[0].removeprefix("token, for clients: ")
    assert token.startswith("dmqt_")
    assert len(token) == 48
    assert 'server.token_hash = "sha256:' in first[1]
    assert token not in first[1]
    assert 'server.admin_token_hash = "sha256:' in command("token", "--admin").stdout


def test_the_command_gives_the_token_of_a_file_and_nothing_else_is_served(tmp_path: Path) -> None:
    token, pair = made()
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(f"{token}\n")
    wrong.write_text("dmqt_wrong\n")
    with serving(tmp_path / "store", "--set", pair) as served:
        # An address may be wrong ten times at once.
        for verb in ("publish", "status"):
            words = (verb, *SERVED[verb], *served.place)
            assert refused(9, *words) == "delaymq: the token is wrong"
            assert refused(9, *words, "--token-file", wrong) == "delaymq: the token is wrong"
        assert command("publish", "a", "x", *served.place, "--token-file", right).returncode == 0
        words = ("consume", "a", "--group", "g", "--count", "1", *served.place)
        ended = command(*words, DELAYMQ_CLIENT__TOKEN_FILE=str(right))
        assert (ended.returncode, ended.stdout) == (0, "x\n")
        said = json.loads(command("status", "--json", *served.place, "--token-file", right).stdout)
        assert (said["pending"], said["ready"]) == (0, 0)
        with delaymq.connect(served.url, token=token) as client:
            assert client.status().ready == 0
        for guess in (None, "", token[:-1], token + "x"):
            with pytest.raises(delaymq.Unauthorized):
                delaymq.connect(served.url, token=guess)


def test_whoever_has_the_token_is_served_and_nobody_else(tmp_path: Path) -> None:
    token, pair = made()
    with serving(tmp_path / "store", *OPEN, "--set", pair) as served:
        assert served.address.startswith("0.0.0.0:")
        with served.connect() as peer:
            assert peer.ask(PING)[0] == UNAUTHORIZED
            assert peer.ask(HELLO, hello("dmqt_wrong\x1b[31m\n"))[0] == UNAUTHORIZED
            assert peer.ask(HELLO, hello(token))[0] == 0
            assert peer.ask(PING, b"x") == (0, b"x")
        with served.connect() as qmq_client:
            qmq_client.send(frame(SEND, qmq_message("order", "id"), version=9))
            assert qmq_client.is_closed()
        with served.connect("127.0.0.2") as guessing:
            codes = [guessing.ask(HELLO, hello("guess"))[0] for _ in range(12)]
            assert codes == [UNAUTHORIZED] * 10 + [BUSY] * 2
            assert guessing.ask(HELLO, hello(token))[0] == BUSY, "nobody there is listened to"
        with served.connect() as garbage:
            garbage.send(b"GET / HTTP/1.1\r\n\r\n")
            assert garbage.is_closed()
        assert served.page("/meta/address") == (200, "queue.example:20801")
        assert served.metric("wrong_tokens_total") == 11
        lines = told(served)
    events = [line["event"] for line in lines]
    assert events[:4] == ["start", "recovered", "guarded", "listening"]
    assert events[-1] == "stopped"
    of_peers = {"unauthorized", "wrong_token", "qmq_client_refused", "token_unheard", "cut_off"}
    assert set(events[4:-1]) == of_peers | {"drain"}
    assert "from nowhere" in str(lines[2]["message"])
    [unheard] = [line for line in lines if line["event"] == "token_unheard"]
    assert (unheard["address"], unheard["count"], unheard["level"]) == ("127.0.0.2", 3, "warning")
    whole = json.dumps(lines)
    assert token not in whole
    assert "guess" not in whole


def test_qmqs_clients_are_answered_where_they_come_from(tmp_path: Path) -> None:
    _, pair = made()
    networks = "server.qmq_clients_from=127.0.0.8/30"
    with serving(tmp_path / "store", *OPEN, "--set", pair, "--set", networks) as served:
        with served.connect("127.0.0.9") as expected:
            assert expected.ask(SEND, qmq_message("order", "id"), version=9) == (0, b"")
            assert expected.ask(PING)[0] == UNAUTHORIZED
        with served.connect("127.0.0.12") as other:
            other.send(frame(SEND, qmq_message("order", "id"), version=9))
            assert other.is_closed()
        lines = told(served)
    [guarded] = [line for line in lines if line["event"] == "guarded"]
    assert guarded["qmq_clients_from"] == ["127.0.0.8/30"]


def test_what_an_administrator_switches_off_stays_so(tmp_path: Path) -> None:
    admin, pair = made("--admin")
    update, query = f"/onoffline?operation=update&{CONSUMER}&state=1", f"/onoffline?operation=query&{CONSUMER}"
    off = {"status": 0, "message": "OFF", "data": None}
    with serving(tmp_path / "store", "--set", pair) as served:
        assert served.page(update)[0] == 401
        status, page = served.page(update, Authorization=f"Bearer {admin}")
        assert (status, json.loads(page)) == (200, off)
        served.process.kill()
    with serving(tmp_path / "store") as served:
        assert json.loads(served.page(query)[1]) == off
        assert served.page(update, Authorization=f"Bearer {admin}")[0] == 403, "this one has no administrator"
    ended = command("verify", "--store", tmp_path / "store")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_systemd_is_told_when_it_listens_and_when_it_drains(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(20)
        with serving(tmp_path / "store", NOTIFY_SOCKET=address) as served:
            assert systemd.recv(4096).decode().splitlines() == ["READY=1", f"STATUS=listening on {served.address}"]
            served.process.send_signal(signal.SIGTERM)
            assert systemd.recv(4096).decode().splitlines()[0] == "STOPPING=1"
            assert served.process.wait(20) == 0


def test_a_process_may_open_as_many_files_as_the_system_lets_it(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= 300:
        pytest.skip("there is no more to ask for")
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        with serving(tmp_path / "store") as served:
            assert resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_refusal_is_one_line_of_the_format(log_format: str, tmp_path: Path) -> None:
    ended = command("serve", "--store", tmp_path / "store", "--log", log_format, "--set", "server.host=0.0.0.0")
    assert ended.returncode == 2
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    if log_format == "text":
        [line] = lines
        assert line.startswith("delaymq: server.token_hash: expected the hash of a token")
    else:
        said = [json.loads(line) for line in lines]
        assert [one["event"] for one in said] == ["start", "failed"]
        assert said[-1]["error"] == "InvalidArgument"
        assert said[-1]["level"] == "error"
