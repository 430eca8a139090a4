"""The settings of the command line, and where each value comes from.

Settings are read from a TOML file, then from the environment, then from `--set`, then from the options of the verb. A
later source wins. Only the command reads settings; the library reads no file and no environment.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, TypeGuard

from delaymq.cli.failures import UsageError

PREFIX = "DELAYMQ_"
FILE_VARIABLE = "DELAYMQ_CONFIG"
NAME_PARTS = "__"
PORT_MAX = 65_535
TOKEN_HASH = re.compile("sha256:[0-9a-fA-F]{64}")
PLACE = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
ENDPOINT = re.compile(r"https?://[^\s/]+/?")
REGISTER = re.compile("(file|etcd):.+", re.DOTALL)
NETWORK = re.compile("[0-9a-fA-F:.]+(/[0-9]{1,3})?")


class Kind(NamedTuple):
    """A kind of value: in words, and the function that converts a value from TOML, which raises ValueError."""

    expected: str
    read: Callable[[object], object]


@dataclass(frozen=True)
class Key:
    """One key of the configuration.

    Attributes:
        name: The table and the name in it, with the unit.
        kind: The expected kind of value.
        meaning: The effect of the key, in words.
        default: The default, in words.
    """

    name: str
    kind: Kind
    meaning: str
    default: str

    @property
    def variable(self) -> str:
        """The name of the key in the environment."""
        return PREFIX + self.name.upper().replace(".", NAME_PARTS)

    @property
    def expected(self) -> str:
        """The expected kind of value, in words."""
        return self.kind.expected


def _accepted(value: object, is_accepted: bool) -> object:
    if not is_accepted:
        raise ValueError
    return value


def _is_number(value: object, kind: type[int] | UnionType) -> TypeGuard[float]:
    return isinstance(value, kind) and not isinstance(value, bool)


def _text(value: object) -> object:
    return _accepted(value, isinstance(value, str) and bool(value) and "\0" not in value)


def _one_of(*words: str) -> Callable[[object], object]:
    return lambda value: _accepted(value, value in words)


def _whole(value: object) -> object:
    return _accepted(value, _is_number(value, int) and value >= 1)


def _port(value: object) -> object:
    return _accepted(value, _is_number(value, int) and 0 <= value <= PORT_MAX)


def _token_hash(value: object) -> object:
    return _accepted(value, isinstance(value, str) and TOKEN_HASH.fullmatch(value) is not None)


def _number(value: object) -> object:
    return _accepted(value, _is_number(value, int | float) and 0 <= value < float("inf"))


def _networks(value: object) -> object:
    """Reads a list of texts, or one text with commas."""
    texts = [text.strip() for text in value.split(",")] if isinstance(value, str) else value
    if texts == [""]:
        return ()
    if not isinstance(texts, list) or not all(isinstance(text, str) and NETWORK.fullmatch(text) for text in texts):
        raise ValueError
    for text in texts:
        ipaddress.ip_network(text)  # raises if bits are set behind the length
    return tuple(texts)


def _place(value: object) -> object:
    found = PLACE.fullmatch(value) if isinstance(value, str) else None
    return _accepted(value, found is not None and int(found[2]) <= PORT_MAX)


def _register(value: object) -> object:
    return _accepted(value, isinstance(value, str) and "\0" not in value and REGISTER.fullmatch(value) is not None)


def _endpoint(value: object) -> object:
    return _accepted(value, isinstance(value, str) and ENDPOINT.fullmatch(value) is not None)


def _list_of(read: Callable[[object], object]) -> Callable[[object], object]:
    """Reads a list, or one text with commas."""

    def read_all(value: object) -> object:
        found = [text.strip() for text in value.split(",")] if isinstance(value, str) else value
        if not isinstance(found, list):
            raise ValueError  # noqa: TRY004 - what TOML gives is refused as every other value
        return tuple(read(one) for one in found) if found != [""] else ()

    return read_all


def _hours_of(value: object) -> object:
    """Reads a table, or one text: `settlement=720, noise=0`."""
    if isinstance(value, str):
        parts = [part.strip().rpartition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): float(hours) for name, _, hours in parts}
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - what TOML gives is refused as every other value
    return {_text(name): _number(hours) for name, hours in value.items()}


PATH = Kind("a path", _text)
ADDRESS = Kind("an IP address", _text)
PORT = Kind("a port, 0 for any", _port)
WHOLE = Kind("a whole number", _whole)
NUMBER = Kind("a number", _number)
HASH = Kind("sha256: and 64 hexadecimal digits", _token_hash)

KEYS = (
    Key("store.path", PATH, "the store's folder", "`--store` must be given"),
    Key(
        "store.durability",
        Kind('"disk" or "os"', _one_of("disk", "os")),
        "what an answered call survives: a power cut, or a killed process",
        '"disk"',
    ),
    Key("store.segment_bytes", WHOLE, "size of one log segment, fixed when the store is created", "128 MiB"),
    Key("store.delay_days_max", NUMBER, "longest delay that is accepted", "3653"),
    Key("store.keep_finished_hours", NUMBER, "how long files are kept after all their messages are finished", "72"),
    Key(
        "store.keep_finished_hours_of",
        Kind("a table of subjects and hours", _hours_of),
        "the same for single subjects, such as `settlement=720, noise=0`",
        "none",
    ),
    Key("store.deduplicate_minutes", NUMBER, "how long ids of `--deduplicate` are remembered", "10"),
    Key("store.keys_max", WHOLE, "maximum number of keys of pending messages", "1048576"),
    Key("store.message_ids_max", WHOLE, "maximum number of remembered ids", "1048576"),
    Key("store.hot_minute_messages", WHOLE, "a minute with more due messages is logged", "600000"),
    Key("store.window_bytes", WHOLE, "memory for messages that are due soon", "512 MiB"),
    Key("store.warn_free_bytes", WHOLE, "less free disk space is logged", "0: no mark"),
    Key("store.refuse_free_bytes", WHOLE, "with less free disk space, publishes are refused", "0: no mark"),
    Key(
        "store.clock_accept_after_seconds",
        NUMBER,
        "a step of the wall clock that holds dispatch is accepted once the clock kept its pace for so long",
        "off: an operator accepts it",
    ),
    Key("consume.group", Kind("a name", _text), "consumer group", "`--group` must be given"),
    Key("consume.in_flight_max", WHOLE, "maximum number of messages in flight", "256"),
    Key("client.server", Kind("a URL", _text), "server to connect to", "`--server` or a store must be given"),
    Key("client.token_file", PATH, "file with the token for the server", "none"),
    Key("client.timeout_seconds", NUMBER, "how long to wait for an answer of the server", "30"),
    Key(
        "server.host",
        ADDRESS,
        "address that `serve` listens on; addresses of other networks need a token",
        '"127.0.0.1"',
    ),
    Key("server.port", PORT, "port for connections", "20801"),
    Key(
        "server.advertised_address",
        Kind("host:port", _text),
        "address that QMQ's clients connect to",
        "where it listens",
    ),
    Key("server.drain_seconds", NUMBER, "how long a stop waits for requests under way", "30"),
    Key("server.silence_seconds", NUMBER, "how long a client with subscriptions may be silent", "60"),
    Key("server.qmq_lease_seconds", NUMBER, "lease of a QMQ consumer: how long it may be silent", "180"),
    Key("server.qmq_broadcast_lease_hours", NUMBER, "the same for a broadcast consumer, also over restarts", "48"),
    Key("server.qmq_retry_seconds", NUMBER, "delay of its retries when the lease ends", "5"),
    Key("server.qmq_attempts_max", WHOLE, "deliveries of a message before it becomes a dead letter", "32"),
    Key("server.qmq_held_pulls_max", WHOLE, "maximum number of parked pulls", "100,000"),
    Key("server.qmq_consumers_max", WHOLE, "maximum number of QMQ consumers", "100,000"),
    Key("server.qmq_groups_max", WHOLE, "maximum number of groups that QMQ clients may create", "100,000"),
    Key("server.qmq_subjects_max", WHOLE, "the same for subjects, including those of producers", "100,000"),
    Key("server.qmq_undelayed_seconds", NUMBER, "delay of a QMQ message without the delay bit", "0"),
    Key(
        "server.token_hash",
        HASH,
        "hash of the token that clients must give, as `delaymq token` prints it",
        "no token is required",
    ),
    Key("server.admin_token_hash", HASH, "hash of the token that switches consumers on and off", "no client can"),
    Key(
        "server.qmq_clients_from",
        Kind("networks, such as 10.1.0.0/16", _networks),
        "networks of QMQ's clients, if there is a token",
        "none",
    ),
    Key("http.host", ADDRESS, "address for plain HTTP", "as `server.host`"),
    Key("http.port", PORT, "port for plain HTTP", "20880"),
    Key(
        "cluster.listen",
        Kind("an IP address and a port", _place),
        "address that a node of a group of copies listens on for the other nodes",
        "the store has no copies",
    ),
    Key(
        "cluster.advertised_address",
        Kind("host:port", _place),
        "address that the other nodes connect to",
        "`cluster.listen`, unless that is every address of the machine",
    ),
    Key(
        "cluster.peers",
        Kind("a list of host:port", _list_of(_place)),
        "addresses of the other nodes",
        "none",
    ),
    Key(
        "cluster.register",
        Kind("file:PATH or etcd:KEY", _register),
        "register of the group: a file, for nodes of one machine, or a key of etcd",
        "it must be given, with `cluster.listen`",
    ),
    Key(
        "cluster.etcd",
        Kind("a list of URLs, such as http://127.0.0.1:2379", _list_of(_endpoint)),
        "members of etcd",
        "none",
    ),
    Key("cluster.etcd_timeout_seconds", NUMBER, "how long one request to etcd may take", "2"),
    Key("cluster.etcd_ca", PATH, "file in PEM with the authority of etcd's certificates, for https", "none"),
    Key("cluster.etcd_certificate", PATH, "certificate of this node for etcd, in PEM", "none"),
    Key("cluster.etcd_key", PATH, "key of that certificate, in PEM", "none"),
    Key("cluster.ca", PATH, "file in PEM with the authority of the nodes' certificates", "none: nodes of one machine"),
    Key("cluster.certificate", PATH, "certificate of this node for the other nodes, in PEM", "none"),
    Key("cluster.key", PATH, "key of that certificate, in PEM", "none"),
    Key(
        "cluster.min_copies",
        WHOLE,
        "copies that a new message must have when `cluster create` makes the group; `cluster min-copies` changes it",
        "2",
    ),
    Key(
        "log.format",
        Kind('"text" or "json"', _one_of("text", "json")),
        "format of the log of `serve` on standard error",
        '"text"',
    ),
)
BY_NAME = {key.name: key for key in KEYS}
TABLES = ("store.keep_finished_hours_of",)
"""Keys that are tables whose names users choose: subjects, which may have dots."""


@dataclass(frozen=True)
class Setting:
    """One value, and its source."""

    value: Any
    origin: str


class Settings(Mapping[str, Any]):
    """The values that were given, by key. A key that was not given is absent."""

    def __init__(self, found: dict[str, Setting]) -> None:
        """Takes the settings that `load` found."""
        self._found = found

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - each key has a kind of its own
        return self._found[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def origin(self, name: str) -> str:
        """Returns the source of a value."""
        return self._found[name].origin


def load(file: Path | None, environment: Mapping[str, str], pairs: Sequence[str]) -> Settings:
    """Reads the configuration.

    Args:
        file: The file of `--config`. Without it, the file that the variable DELAYMQ_CONFIG names, if any.
        environment: The environment.
        pairs: The `key=value` of each `--set`.

    Raises:
        UsageError: A file cannot be read, a key is unknown, or a value is refused.
    """
    found: dict[str, Setting] = {}
    named = environment.get(FILE_VARIABLE)
    path = file if file is not None else Path(named) if named else None
    if path is not None:
        for name, value in _flat(_read_file(path)):
            found[name] = _checked(name, value, str(path))
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and NAME_PARTS in variable:
            name = variable.removeprefix(PREFIX).lower().replace(NAME_PARTS, ".")
            found[name] = _checked(name, _from_text(name, text), f"the variable {variable}")
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--set: expected key=value, found {pair!r}")
        found[name] = _checked(name, _from_text(name, text), f"--set {name}")
    return Settings(found)


def _read_file(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{path}: is not TOML that anybody needs: it is nested too deeply") from None
    except ValueError as error:  # also a number with more digits than Python reads
        raise UsageError(f"{path}: is not TOML: {error}") from error


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and above + name not in TABLES:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _from_text(name: str, text: str) -> object:
    """Reads a value of the environment or of `--set`: numbers as in TOML, text without quotes."""
    key = BY_NAME.get(name)
    if key is None or key.kind not in (WHOLE, NUMBER, PORT):
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _checked(name: str, value: object, origin: str) -> Setting:
    key = BY_NAME.get(name)
    if key is None:
        [nearest] = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0)
        raise UsageError(f"{origin}: unknown key {name}; the nearest is {nearest}")
    try:
        return Setting(key.kind.read(value), origin)
    except ValueError:
        # The value in place of a hash may be the token itself.
        found = "something else" if key.kind is HASH else repr(value)
        raise UsageError(f"{origin}: {name}: expected {key.expected}, found {found}") from None


def environment() -> Mapping[str, str]:
    """Returns the environment of this process."""
    return os.environ
