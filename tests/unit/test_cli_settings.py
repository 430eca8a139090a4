from __future__ import annotations

from pathlib import Path

import pytest

from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import KEYS, load


def test_the_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text('[store]\npath = "a"\ndurability = "os"\n[consume]\ngroup = "g"\nin_flight_max = 5\n')
    environment = {"DELAYMQ_STORE__PATH": "b", "DELAYMQ_CONSUME__IN_FLIGHT_MAX": "7", "HOME": "x", "DELAYMQ_WORD": "x"}
    settings = load(file, environment, ["store.path=c"])
    assert dict(settings) == {
        "store.path": "c",
        "store.durability": "os",
        "consume.group": "g",
        "consume.in_flight_max": 7,
    }
    assert settings.origin("store.path") == "--set store.path"
    assert settings.origin("store.durability") == str(file)
    assert settings.origin("consume.in_flight_max") == "the variable DELAYMQ_CONSUME__IN_FLIGHT_MAX"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text("store.keep_finished_hours = 1.5\n")
    assert load(None, {"DELAYMQ_CONFIG": str(file)}, [])["store.keep_finished_hours"] == 1.5
    assert load(None, {}, []) == {}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_key_can_be_given_in_each_way(key: object, tmp_path: Path) -> None:
    name = key.name  # type: ignore[attr-defined]
    texts = {"store.path": "x", "store.durability": "os", "consume.group": "g"}
    hashed = "sha256:" + "0aF" * 21 + "0"
    texts |= {
        "server.token_hash": hashed,
        "server.admin_token_hash": hashed,
        "server.qmq_clients_from": "::1,10.0.0.0/8",
        "store.keep_finished_hours_of": "a=12, b.c=0.5",
    }
    texts |= {"server.host": "::1", "server.advertised_address": "a:1", "http.host": "::1", "log.format": "json"}
    texts |= {"cluster.listen": "127.0.0.1:1", "cluster.peers": "a:1,[::1]:2", "cluster.register": "file:r"}
    texts |= {"cluster.etcd": "http://localhost:1, https://localhost"}
    texts["cluster.advertised_address"] = "a:1"
    texts |= {
        f"cluster.{name}": "f" for name in ("ca", "certificate", "key", "etcd_ca", "etcd_certificate", "etcd_key")
    }
    texts |= {"client.server": "delaymq://a", "client.token_file": "f"}
    text = texts.get(name, "12")
    file = tmp_path / "delaymq.toml"
    file.write_text(f"{name} = {text if text == '12' else repr(text)}\n")
    variable = key.variable  # type: ignore[attr-defined]
    by_file, by_variable, by_pair = (
        load(file, {}, []),
        load(None, {variable: text}, []),
        load(None, {}, [f"{name}={text}"]),
    )
    assert by_file == by_variable == by_pair
    assert list(by_file) == [name]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[store]\npaht = 'x'", "unknown key store.paht; the nearest is store.path"),
        ("[store]\nkeep_finished = 72", "the nearest is store.keep_finished_hours"),
        ("[consum]\ngroup = 'x'", "the nearest is consume.group"),
        ("store = 5", "unknown key store"),
        ("[store]\nsegment_bytes = true", "expected a whole number, found True"),
        ("[store]\nkeep_finished_hours = nan", "expected a number, found nan"),
        ("[store]\nkeep_finished_hours = '72h'", "expected a number, found '72h'"),
        ("[server]\nport = 65536", "server.port: expected a port, 0 for any, found 65536"),
        ("[http]\nport = -1", "http.port: expected a port"),
        ("[server]\nport = true", "server.port: expected a port"),
        ("[store]\ndurability = 'maybe'", 'expected "disk" or "os"'),
        ("[log]\nformat = 'xml'", 'log.format: expected "text" or "json", found \'xml\''),
        ("[server]\nqmq_clients_from = '10.0.0.1/8'", "server.qmq_clients_from: expected networks"),
        ("[server]\nqmq_clients_from = ['10.0.0.0/8', 'host']", "server.qmq_clients_from: expected networks"),
        ("[server]\nqmq_clients_from = ['10.0.0.0/255.0.0.0']", "server.qmq_clients_from: expected networks"),
        ("[server]\nqmq_clients_from = [10]", "server.qmq_clients_from: expected networks"),
        ("[server]\nqmq_clients_from = 10", "server.qmq_clients_from: expected networks"),
        ("[server]\nqmq_clients_from = '10.0.0.0/8,'", "server.qmq_clients_from: expected networks"),
        ("[server]\nqmq_clients_from = '10.0.0.0/33'", "server.qmq_clients_from: expected networks"),
        ("[store.keep_finished_hours_of]\na = -1", "expected a table of subjects and hours, found {'a': -1}"),
        ("[store.keep_finished_hours_of]\na = '12'", "expected a table of subjects and hours"),
        ("[store.keep_finished_hours_of]\na.b = 12", "expected a table of subjects and hours"),
        ("[store]\nkeep_finished_hours_of = 12", "expected a table of subjects and hours"),
        ("[store]\nkeep_finished_hours_of = 'a'", "expected a table of subjects and hours"),
        ("[store]\nkeep_finished_hours_of = '=12'", "expected a table of subjects and hours"),
        ("[cluster]\nlisten = '127.0.0.1'", "cluster.listen: expected an IP address and a port, found '127.0.0.1'"),
        ("[cluster]\nlisten = '127.0.0.1:65536'", "cluster.listen: expected"),
        ("[cluster]\nlisten = '::1:5'", "cluster.listen: expected"),
        ("[cluster]\npeers = ['a:1', 'b']", "cluster.peers: expected a list of host:port, found ['a:1', 'b']"),
        ("[cluster]\npeers = 'a:1,'", "cluster.peers: expected"),
        ("[cluster]\npeers = 7", "cluster.peers: expected"),
        ("[cluster]\npeers = [7]", "cluster.peers: expected"),
        ("[cluster]\nregister = '/srv/register'", "cluster.register: expected file:PATH or etcd:KEY"),
        ("[cluster]\nregister = 'etcd:'", "cluster.register: expected"),
        ("[cluster]\netcd = ['127.0.0.1:2379']", "cluster.etcd: expected a list of URLs"),
        ("[cluster]\netcd = ['http://localhost/b']", "cluster.etcd: expected"),
        ("[cluster]\nmin_copies = 0", "cluster.min_copies: expected a whole number"),
        ("[cluster]\nca = ''", "cluster.ca: expected a path"),
        ("[cluster]\npeer = ['a:1']", "unknown key cluster.peer; the nearest is cluster.peers"),
        ("[store\n", "is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(content: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        load(file, {}, [])
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("key", ["server.token_hash", "server.admin_token_hash"])
@pytest.mark.parametrize("wrong", ["dmqt_secret", "sha256:", "sha256:" + "0" * 63, "sha256:" + "g" * 64, "0" * 64, "5"])
def test_what_stands_where_a_hash_belongs_is_not_repeated(key: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(None, {}, [f"{key}={wrong}"])
    assert f"{key}: expected sha256: and 64 hexadecimal digits, found something else" in str(caught.value)


def test_networks_are_a_list_or_one_text(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text("[server]\nqmq_clients_from = ['10.0.0.0/8', '::1']\n")
    expected = ("10.0.0.0/8", "::1")
    assert load(file, {}, [])["server.qmq_clients_from"] == expected
    assert load(None, {}, ["server.qmq_clients_from=10.0.0.0/8, ::1"])["server.qmq_clients_from"] == expected
    assert load(None, {}, ["server.qmq_clients_from="])["server.qmq_clients_from"] == ()


def test_hours_of_subjects_are_a_table_or_one_text(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text("[store.keep_finished_hours_of]\nsettlement = 720\n'order.timeout' = 0.5\nOrder = 1\n")
    expected = {"settlement": 720, "order.timeout": 0.5, "Order": 1}
    name = "store.keep_finished_hours_of"
    assert load(file, {}, [])[name] == expected
    text = "settlement=720,order.timeout=0.5, Order=1"
    assert load(None, {"DELAYMQ_STORE__KEEP_FINISHED_HOURS_OF": text}, [])[name] == expected
    assert load(None, {}, [f"{name}={text}"])[name] == expected
    assert load(file, {}, [f"{name}="])[name] == {}


def test_what_is_wrong_elsewhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the variable DELAYMQ_STORE__PAHT: unknown key"):
        load(None, {"DELAYMQ_STORE__PAHT": "x"}, [])
    with pytest.raises(UsageError, match="--set: expected key=value"):
        load(None, {}, ["store.path"])
    with pytest.raises(UsageError, match=r"--set consume\.in_flight_max: .* found 'many'"):
        load(None, {}, ["consume.in_flight_max=many"])
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml", {}, [])
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(tmp_path, {}, [])
