"""The options of a client, and the addresses of a server's nodes: `delaymq://host:port,host:port`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict
from urllib.parse import urlsplit

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.reports import log
from delaymq.durations import Duration, delay_ms

PORT = 20801  # the default port of `delaymq serve`
EXPECTED = "delaymq://host:port"
SEVERAL = "delaymq://host:port,host:port"


AddressTuple: TypeAlias = tuple[str, int, str]
"""Host, port and text of an address."""

AddressTuples: TypeAlias = tuple[AddressTuple, list[AddressTuple], str]
"""The address of the first node, those of the others, and the text of all."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port.

    Attributes:
        host: A name, or an IP address without brackets.
        port: 1 to 65,535.
    """

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Address | None:
        """Parses the URL of one node; None if it is anything else."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            (host or "").encode("idna")  # as name resolution does; UnicodeError is a ValueError
        except ValueError:
            return None
        unexpected = (parts.username, parts.password, parts.path, parts.query, parts.fragment)
        if parts.scheme != "delaymq" or not host or "\0" in host or port == 0 or any(unexpected):
            return None
        return cls(host, PORT if port is None else port)

    def of_core(self) -> AddressTuple:
        """The address as the core takes it."""
        host = self.host if self.host.isascii() else self.host.encode("idna").decode()
        return host, self.port, f"delaymq://{self}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the nodes of a server, of which there is at least one.

    Attributes:
        first: The first one.
        others: The others, in order.
    """

    first: Address
    others: tuple[Address, ...] = ()

    @classmethod
    def of(cls, url: str) -> Addresses:
        """Parses a URL.

        Raises:
            WrongType: It is not a str.
            InvalidArgument: It is not the URL of a delaymq server; `found` is the part that is none.
        """
        anything: object = url
        if not isinstance(anything, str):
            raise wrong_type("url", "str", anything)
        scheme, separator, rest = url.removesuffix("/").partition("://")
        parts = rest.split(",")
        nodes = []
        for part in parts:
            node = Address.of(f"{scheme}{separator}{part}")
            if node is None:
                raise refused("url", EXPECTED, url) if len(parts) == 1 else refused("url", SEVERAL, part)
            nodes.append(node)
        first, *others = dict.fromkeys(nodes)
        return cls(first, tuple(others))

    def of_core(self) -> AddressTuples:
        """The addresses as the core takes them."""
        return self.first.of_core(), [node.of_core() for node in self.others], str(self)

    def __str__(self) -> str:
        return "delaymq://" + ",".join(map(str, (self.first, *self.others)))


TIMEOUT_S = 30.0  # default timeout of a call
HELLO_S = 10.0  # timeout of the first request of a connection
PING_S = 10.0  # after this time without traffic in one of the directions, the client pings the server
SILENCE_S = 30.0  # after this time without a byte from the server, the connection is closed
PING_OF_SEVERAL_S = 2.0  # `PING_S` and `SILENCE_S` where there is another node to go to: a failover takes seconds
SILENCE_OF_SEVERAL_S = 6.0
AGAIN_S = 0.25  # delay before a subscription is requested again after a temporary refusal

CoreOptions: TypeAlias = tuple[AddressTuples, bytes, tuple[int, str], tuple[int, int, int, int]]
"""Options as `_core.Connection` takes them: the addresses; token; the timeout in milliseconds and as text; and, in
milliseconds, `hello_s`, `ping_s`, `silence_s` and `again_s`.
"""


class ConnectArguments(TypedDict, total=False):
    """The options of `connect`, which documents them."""

    token: str | bytes | None
    timeout: Duration
    deduplicate: bool
    retry_ambiguous: bool


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of a client.

    Attributes:
        addresses: The addresses of the server's nodes.
        token: The token that authorizes the client, or empty.
        timeout_s: How long a call waits for its answer.
        deduplicate: Whether everything is published with `deduplicate`.
        retry_ambiguous: Whether a request that the server deduplicates is repeated if its answer was lost.
        hello_s: Timeout of the first request of a connection.
        ping_s: After this time without traffic in one of the directions, the client pings the server.
        silence_s: After this time without a byte from the server, the connection is closed.
        again_s: Delay before a subscription is requested again after a temporary refusal.
    """

    addresses: Addresses
    token: bytes
    timeout_s: float
    deduplicate: bool
    retry_ambiguous: bool
    hello_s: float
    ping_s: float
    silence_s: float
    again_s: float

    @classmethod
    def made(
        cls,
        url: str,
        *,
        token: str | bytes | None = None,
        timeout: Duration = TIMEOUT_S,
        deduplicate: bool = False,
        retry_ambiguous: bool = True,
    ) -> ClientOptions:
        """Checks the arguments of `connect`.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.connect`.
        """
        anything: object = token
        if isinstance(anything, str):
            proof = anything.encode("utf-8", "surrogatepass")
        elif anything is None or isinstance(anything, bytes):
            proof = anything or b""
        else:
            raise wrong_type("token", "str or bytes", anything)
        choices: dict[str, object] = {"deduplicate": deduplicate, "retry_ambiguous": retry_ambiguous}
        for name, choice in choices.items():
            if not isinstance(choice, bool):
                raise wrong_type(name, "bool", choice)
        timeout_ms = delay_ms(timeout, "timeout")
        if timeout_ms == 0:
            raise refused("timeout", "more than zero", timeout)
        addresses = Addresses.of(url)
        silences = (PING_OF_SEVERAL_S, SILENCE_OF_SEVERAL_S) if addresses.others else (PING_S, SILENCE_S)
        times = (HELLO_S, *silences, AGAIN_S)
        return cls(addresses, proof, timeout_ms / 1000, deduplicate, retry_ambiguous, *times)

    def of_core(self) -> CoreOptions:
        """The options as the core takes them."""
        hello_ms, ping_ms, silence_ms, again_ms = (
            round(seconds * 1000) for seconds in (self.hello_s, self.ping_s, self.silence_s, self.again_s)
        )
        return (
            self.addresses.of_core(),
            self.token,
            (round(self.timeout_s * 1000), f"{self.timeout_s:g} s"),
            (hello_ms, ping_ms, silence_ms, again_ms),
        )


def log_report(action: str, text: str) -> None:
    """Logs a report of the core, which calls this on its thread."""
    log("error" if action == "client_failed" else "warning", action, text)
