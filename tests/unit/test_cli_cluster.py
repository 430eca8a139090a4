"""cluster: its settings, what it asks of a node over plain HTTP, and how it shows the answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from delaymq.cli import main
from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import Settings, load
from delaymq.cli.output.group_of_copies import register_lines, status_lines
from delaymq.cli.server.cluster_options import cluster_of, is_cluster, min_copies_of
from delaymq.cli.server.pages import http_of
from ports import lone_port

ONE, TWO, THREE = (digit * 32 for digit in "123")
FILE = {"listen": "127.0.0.1:1", "peers": "127.0.0.1:2,localhost:3", "register": "file:/r"}
ETCD = {**FILE, "register": "etcd:delaymq/orders", "etcd": "http://127.0.0.1:2379"}
TLS = {"ca": "ca.pem", "certificate": "one.pem", "key": "one.key"}


def settings_with(chosen: Mapping[str, object], *more: str) -> Settings:
    return load(None, {}, [*(f"cluster.{name}={value}" for name, value in chosen.items()), *more])


def test_a_register_in_a_file() -> None:
    settings = settings_with(FILE)
    assert is_cluster(settings)
    assert not is_cluster(load(None, {}, ["store.path=x"]))
    assert cluster_of(settings) == {
        "listen": "127.0.0.1:1",
        "advertised_address": None,
        "peers": ["127.0.0.1:2", "localhost:3"],
        "tls": None,
        "register": {
            "file": "/r",
            "key": "file:/r",
            "endpoints": [],
            "timeout_ms": 2_000,
            "authorities": None,
            "client": None,
        },
    }
    assert min_copies_of(settings) == 2


def test_a_register_in_etcd_and_nodes_elsewhere() -> None:
    paths = {"etcd_ca": "etcd.pem", "etcd_certificate": "client.pem", "etcd_key": "client.key"}
    elsewhere = {
        "listen": "0.0.0.0:1",
        "advertised_address": "a.example:1",
        "peers": "b.example:1,[2001:db8::1]:1",
        "etcd": "https://127.0.0.1:1,https://localhost:1",
    }
    found = cluster_of(settings_with({**ETCD, **elsewhere, **paths, **TLS, "etcd_timeout_seconds": 0.5}))
    assert found["tls"] == ("ca.pem", "one.pem", "one.key")
    assert found["advertised_address"] == "a.example:1"
    assert found["register"] == {
        "file": None,
        "key": "delaymq/orders",
        "endpoints": ["https://127.0.0.1:1", "https://localhost:1"],
        "timeout_ms": 500,
        "authorities": "etcd.pem",
        "client": ("client.pem", "client.key"),
    }


@pytest.mark.parametrize(
    ("chosen", "changed", "words"),
    [
        (FILE, {"listen": None}, "cluster.listen: missing"),
        (FILE, {"register": None}, "cluster.register: missing"),
        (FILE, {"listen": "host:1"}, "--set cluster.listen: cluster.listen: expected an IP address and a port"),
        (FILE, {"listen": "0.0.0.0:1"}, "expected an address of this machine, or the settings cluster.ca"),
        (FILE, {"advertised_address": "10.0.0.1:2"}, "cluster.advertised_address: expected an address of this machine"),
        (FILE, {"peers": "127.0.0.1:2,10.0.0.1:2"}, "cluster.peers: expected an address of this machine"),
        (FILE, {"peers": "127.0.0.1:2,127.0.0.1:2"}, "cluster.peers: expected each of the other nodes once"),
        (FILE, {"peers": "127.0.0.1:1"}, "expected each of the other nodes once, found 127.0.0.1:1"),
        (FILE, {"etcd": "http://localhost:1"}, "cluster.etcd: the register file:/r is not in etcd"),
        (FILE, {"etcd_ca": "ca"}, "cluster.etcd_ca: the register file:/r is not in etcd"),
        (
            FILE,
            {"ca": "ca"},
            "cluster.certificate: missing: cluster.ca, cluster.certificate and cluster.key go together",
        ),
        (FILE, {"ca": "ca", "certificate": "c"}, "cluster.key: missing"),
        (FILE, {"certificate": "c", "key": "k"}, "cluster.ca: missing"),
        (ETCD, {"etcd": None}, "cluster.etcd: missing: the register etcd:delaymq/orders is in etcd"),
        (
            ETCD,
            {"etcd": "https://localhost:1"},
            "cluster.etcd: expected https:// with cluster.etcd_ca, or http:// without it",
        ),
        (ETCD, {"etcd_ca": "ca"}, "cluster.etcd: expected https:// with cluster.etcd_ca"),
        (ETCD, {"etcd_certificate": "c"}, "cluster.etcd_key: missing"),
        (ETCD, {"etcd_key": "k"}, "cluster.etcd_certificate: missing"),
        (ETCD, {"etcd_certificate": "c", "etcd_key": "k"}, "cluster.etcd_ca: missing"),
        (
            ETCD,
            {"etcd_timeout_seconds": 0},
            "cluster.etcd_timeout_seconds: expected more than 0 and at most 60 seconds",
        ),
        (ETCD, {"etcd_timeout_seconds": 61}, "expected more than 0 and at most 60 seconds, found 61"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(
    chosen: dict[str, object], changed: dict[str, object], words: str
) -> None:
    whole = {name: value for name, value in {**chosen, **changed}.items() if value is not None}
    with pytest.raises(UsageError) as caught:
        cluster_of(settings_with(whole))
    assert words in str(caught.value)


def test_a_copy_must_be_on_a_disk() -> None:
    with pytest.raises(UsageError, match=r'--set store\.durability: store\.durability: expected "disk" in a cluster'):
        cluster_of(settings_with(FILE, "store.durability=os"))
    assert cluster_of(settings_with(FILE, "store.durability=disk"))


def test_no_more_copies_are_asked_for_than_there_are_nodes() -> None:
    assert min_copies_of(settings_with({**FILE, "min_copies": 3})) == 3
    with pytest.raises(UsageError, match=r"expected at most 3, the number of nodes by cluster\.peers, found 4"):
        min_copies_of(settings_with({**FILE, "min_copies": 4}))
    alone = {"listen": "127.0.0.1:1", "register": "file:/r"}
    with pytest.raises(UsageError, match="expected at most 1"):
        min_copies_of(settings_with(alone))
    assert min_copies_of(settings_with({**alone, "min_copies": 1})) == 1


@pytest.mark.parametrize(
    ("pairs", "url"),
    [
        ((), "http://127.0.0.1:20880"),
        (("server.host=10.0.0.1",), "http://" + "10.0.0.1:20880"),
        (("server.host=10.0.0.1", "http.host=0.0.0.0", "http.port=5"), "http://127.0.0.1:5"),
        (("http.host=::",), "http://[::1]:20880"),
    ],
)
def test_the_pages_are_where_the_settings_say(pairs: tuple[str, ...], url: str) -> None:
    assert http_of(load(None, {}, pairs), None) == url
    assert http_of(load(None, {}, pairs), "http://localhost:1/") == "http://localhost:1"


STATUS: dict[str, Any] = {
    "node": ONE,
    "role": "primary",
    "epoch": 3,
    "log_epoch": 3,
    "stream": "f" * 32,
    "timeline": 0,
    "committed": 1_200,
    "end": 1_234,
    "durable": 1_234,
    "primary": {"node": ONE, "address": "127.0.0.1:20801"},
    "accepts_publishes": True,
    "is_fit": True,
    "awaits_confirmation": False,
    "register": {
        "coordinator": 7,
        "version": 9,
        "stream": "f" * 32,
        "primary": ONE,
        "epoch": 3,
        "sync": [ONE, TWO],
        "complete": [ONE, TWO, THREE],
        "state": "serving",
        "min_copies": 2,
    },
    "nodes": [
        {"address": "127.0.0.1:2", "node": TWO, "client_address": "127.0.0.1:20802", "is_connected": True},
        {"address": "127.0.0.1:3", "node": None, "client_address": None, "is_connected": False},
    ],
    "copies": [
        {"node": TWO, "durable": 1_200, "is_following": True, "has_diverged": False, "clock_offset_ms": -1_500},
    ],
}


def rows_of(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in "\n".join(lines).splitlines()]


def test_a_status_is_a_table() -> None:
    first, second, *table = rows_of(list(status_lines(STATUS)))
    assert " ".join(first) == f"node {ONE} is primary, epoch 3; the primary is {ONE} at 127.0.0.1:20801"
    assert " ".join(second).endswith("log of epoch 3, committed up to 1,200; 2 nodes have every fact, at least 2 must")
    assert table[1:] == [
        [ONE, "primary", "yes", "1,234", "0", "this", "node", "127.0.0.1:20801"],
        [TWO, "replica", "yes", "1,200", "34", "-1,500", "ms", "yes", "127.0.0.1:20802"],
        ["127.0.0.1:3", "no"],
        [THREE, "replica", "no", "no"],
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"register": None}, "the register was not read yet"),
        ({"awaits_confirmation": True}, "`delaymq cluster confirm COORDINATOR`"),
        (
            {"is_fit": False, "unfit_reasons": ["disk", "clock"], "clock_ahead_ms": -1_500},
            "only if no other one can: its disk hangs, its clock is 1,500 ms behind that of the group",
        ),
        (
            {"copies": [{"node": TWO, "durable": None, "clock_offset_ms": 900, "is_clock_apart": True}]},
            f"the clock of {TWO} is 900 ms ahead of that of the primary",
        ),
        ({"accepts_publishes": False}, "publishes are refused: too few copies follow"),
        ({"copies": [{"node": TWO, "durable": None, "has_diverged": True}]}, f"the copy of {TWO} has diverged"),
    ],
)
def test_each_trouble_is_a_line(changed: dict[str, Any], words: str) -> None:
    assert not any("TROUBLE" in line for line in status_lines(STATUS))
    [line] = [line for line in status_lines({**STATUS, **changed}) if line.startswith("TROUBLE: ")]
    assert words in line


def test_a_register_that_is_not_believed_is_shown() -> None:
    waits = {**STATUS, "awaits_confirmation": True}
    lines = list(status_lines(waits, {**STATUS["register"], "coordinator": 8, "primary": TWO}))
    [line] = [line for line in lines if line.startswith("TROUBLE: ")]
    assert "`delaymq cluster confirm 8`" in line
    assert rows_of(lines)[-3:] == [[ONE, "replica", "yes"], [TWO, "primary", "yes"], [THREE, "replica", "no"]]


def test_a_replica_that_takes_no_publishes_is_no_trouble() -> None:
    replica = {**STATUS, "role": "replica", "accepts_publishes": False, "primary": None, "copies": []}
    lines = list(status_lines(replica))
    assert lines[0].endswith("is replica, epoch 3; the primary is unknown")
    assert not any("TROUBLE" in line for line in lines)


def test_a_register_is_a_table() -> None:
    *_, head, one, two, three = rows_of(list(register_lines(STATUS["register"], "file:/r")))
    assert head[0] == "node"
    assert [one, two, three] == [[ONE, "primary", "yes"], [TWO, "replica", "yes"], [THREE, "replica", "no"]]
    assert list(register_lines(None, "file:/r")) == [
        "nothing: file:/r holds no group; make one with `delaymq cluster create`"
    ]


Answer = Callable[[BaseHTTPRequestHandler], tuple[int, str]]


class Node:
    """Plain HTTP of a node that is played."""

    def __init__(self, answer: Answer) -> None:
        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                code, text = answer(self)
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = _answer  # noqa: N815 - as http.server calls it

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def played() -> Iterator[Callable[[Answer], str]]:
    nodes: list[Node] = []

    def play(answer: Answer) -> str:
        nodes.append(Node(answer))
        return nodes[-1].url

    yield play
    for node in nodes:
        node.close()


Play = Callable[[Answer], str]


def test_a_status_is_asked_for(played: Play, capsys: pytest.CaptureFixture[str]) -> None:
    url = played(lambda request: (200, json.dumps(STATUS)) if request.path == "/cluster" else (500, "another page"))
    assert main(["cluster", "status", "--http", url]) == 0
    assert capsys.readouterr().out.startswith(f"node {ONE} is primary")
    assert main(["cluster", "status", "--http", url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"http": url, "status": STATUS, "register": STATUS["register"], "reason": None}


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ((404, "not found"), 3, "the server there is no node of a group of copies"),
        ((200, "hello"), 8, "expected an object of JSON, found 'hello'"),
        ((200, "[]"), 8, "expected an object of JSON"),
        ((503, "the server is stopping"), 3, "the server is stopping"),
    ],
)
def test_another_answer_is_said(
    answer: tuple[int, str], code: int, words: str, played: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "status", "--http", played(lambda _: answer)]) == code
    assert words in capsys.readouterr().err


def test_a_node_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{lone_port()}"
    assert main(["cluster", "status", "--http", url]) == 8
    assert f"no node answers at {url}/cluster: " in capsys.readouterr().err
    assert main(["cluster", "status", "--http", "127.0.0.1:1"]) == 2
    assert "--http: expected a URL such as http://127.0.0.1:20880, found '127.0.0.1:1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("switchover", TWO), f"/cluster/switchover?node={TWO}"),
        (("switchover", "a&b"), "/cluster/switchover?node=a%26b"),
    ],
)
def test_the_administrator_asks(
    words: tuple[str, str], path: str, played: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str, str | None]] = []
    answers = iter([(200, "begun"), (401, "the token is wrong"), (409, "only the primary hands over")])

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        asked.append((request.command, request.path, request.headers.get("Authorization")))
        return next(answers)

    url, file = played(answer), tmp_path / "token"
    file.write_text("dmqt_secret\n")
    asking = ["cluster", *words, "--http", url]
    assert main(asking) == 2
    assert "--token-file: missing" in capsys.readouterr().err
    assert main([*asking, "--token-file", str(file)]) == 0
    assert words[1] in capsys.readouterr().out
    assert main([*asking, "--token-file", str(file)]) == 9
    assert "the token is wrong" in capsys.readouterr().err
    assert main([*asking, "--token-file", str(file)]) == 3
    said = capsys.readouterr()
    assert "only the primary hands over" in said.err
    assert "secret" not in said.err + said.out
    assert asked == [("POST", path, "Bearer dmqt_secret")] * 3


LEFT = {**STATUS, "register": {**STATUS["register"], "sync": [ONE], "complete": [ONE]}, "copies": []}
DEMANDS_ONE = {**STATUS, "register": {**STATUS["register"], "min_copies": 1}}
REPLICA = {**STATUS, "role": "replica"}


def linked(*, node: str | None = None, fault: str | None = None, is_refused: bool = False) -> dict[str, Any]:
    link = {"address": "[::1]:2", "node": node, "fault": fault, "is_refused": is_refused}
    return {**STATUS, "nodes": [link]}


@pytest.mark.parametrize(
    ("words", "path", "statuses"),
    [
        (("confirm", "7"), "/cluster/confirm?coordinator=7", ({**STATUS, "awaits_confirmation": True}, STATUS)),
        (("min-copies", "1"), "/cluster/min_copies?copies=1", (STATUS, DEMANDS_ONE)),
        (("remove", TWO), f"/cluster/remove?node={TWO}", (STATUS, LEFT)),
        (("remove", TWO, "--accept-loss"), f"/cluster/remove?node={TWO}&accept_loss=true", (STATUS, LEFT)),
        (("promote", ONE), f"/cluster/promote?node={ONE}", (REPLICA, STATUS)),
        (("add", "[::1]:2"), "/cluster/add?address=%5B%3A%3A1%5D%3A2", (STATUS, linked(), linked(node=TWO))),
    ],
)
def test_a_change_is_waited_for(
    words: tuple[str, ...],
    path: str,
    statuses: tuple[dict[str, Any], ...],
    *,
    played: Play,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, answers = [], iter(statuses)

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        if request.command == "POST":
            asked.append((request.path, request.headers.get("Authorization")))
            return 200, "begun"
        return 200, json.dumps(next(answers))

    file = tmp_path / "token"
    file.write_text("dmqt_secret\n")
    assert main(["cluster", *words, "--http", played(answer), "--token-file", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"{words[1]} is " in said or f" is {words[1]} " in said
    assert asked == [(path, "Bearer dmqt_secret")]
    assert next(answers, None) is None


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (linked(fault="another stream", is_refused=True), 3, "[::1]:2: another stream"),
        (linked(fault="Connection refused"), 8, "no node at [::1]:2 is in the set after 0.2 s: Connection refused"),
        (linked(node=THREE), 8, "is in the set after 0.2 s: it is connected, and not in the set yet"),
        (STATUS, 8, "is in the set after 0.2 s: it has not connected"),
    ],
)
def test_a_node_that_does_not_join_is_said(
    status: dict[str, Any], code: int, words: str, *, played: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = played(lambda _: (200, json.dumps(status))), tmp_path / "token"
    file.write_text("dmqt_secret\n")
    asked = ["cluster", "add", "[::1]:2", "--timeout", "0.2s", "--http", url, "--token-file", str(file)]
    assert main(asked) == code
    assert words in capsys.readouterr().err


def test_a_change_that_does_not_come_is_said(played: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, file = played(lambda _: (200, json.dumps(STATUS))), tmp_path / "token"
    file.write_text("dmqt_secret\n")
    words = ["cluster", "remove", TWO, "--timeout", "0.2s", "--http", url, "--token-file", str(file)]
    assert main(words) == 8
    assert f"{url}/cluster: the node {TWO} is not removed after 0.2 s" in capsys.readouterr().err


def test_what_is_no_coordinator_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("x", "1.5", ""):
        with pytest.raises(SystemExit) as ended:
            main(["cluster", "confirm", text])
        assert ended.value.code == 2
        assert "expected a number" in capsys.readouterr().err
