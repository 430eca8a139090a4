"""The options of a client, and the address of a server: `delaymq://host:port`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict
from urllib.parse import urlsplit

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.reports import log
from delaymq.durations import Duration, delay_ms

PORT = 20801  # the default port of `delaymq serve`
EXPECTED = "delaymq://host:port"


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
    def of(cls, url: str) -> Address:
        """Parses a URL.

        Raises:
            WrongType: It is not a str.
            InvalidArgument: It is not the URL of a delaymq server.
        """
        anything: object = url
        if not isinstance(anything, str):
            raise wrong_type("url", "str", anything)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            (host or "").encode("idna")  # as name resolution does; UnicodeError is a ValueError
        except ValueError:
            raise refused("url", EXPECTED, url) from None
        unexpected = (parts.username, parts.password, parts.path.removesuffix("/"), parts.query, parts.fragment)
        if parts.scheme != "delaymq" or not host or "\0" in host or port == 0 or any(unexpected):
            raise refused("url", EXPECTED, url)
        return cls(host, PORT if port is None else port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"delaymq://{host}:{self.port}"


TIMEOUT_S = 30.0  # default timeout of a call
HELLO_S = 10.0  # timeout of the first request of a connection
PING_S = 10.0  # after this time without traffic in one of the directions, the client pings the server
SILENCE_S = 30.0  # after this time without a byte from the server, the connection is closed
AGAIN_S = 0.25  # delay before a subscription is requested again after a temporary refusal

CoreOptions: TypeAlias = tuple[tuple[str, int, str], bytes, tuple[int, str], tuple[int, int, int, int]]
"""Options as `_core.Connection` takes them: host, port and text of the address; token; the timeout in milliseconds and
as text; and, in milliseconds, `hello_s`, `ping_s`, `silence_s` and `again_s`.
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
        address: The address of the server.
        token: The token that authorizes the client, or empty.
        timeout_s: How long a call waits for its answer.
        deduplicate: Whether everything is published with `deduplicate`.
        retry_ambiguous: Whether a request that the server deduplicates is repeated if its answer was lost.
        hello_s: Timeout of the first request of a connection.
        ping_s: After this time without traffic in one of the directions, the client pings the server.
        silence_s: After this time without a byte from the server, the connection is closed.
        again_s: Delay before a subscription is requested again after a temporary refusal.
    """

    address: Address
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
        times = (HELLO_S, PING_S, SILENCE_S, AGAIN_S)
        return cls(Address.of(url), proof, timeout_ms / 1000, deduplicate, retry_ambiguous, *times)

    def of_core(self) -> CoreOptions:
        """The options as the core takes them."""
        address = self.address
        host = address.host.encode("idna").decode() if not address.host.isascii() else address.host
        hello_ms, ping_ms, silence_ms, again_ms = (
            round(seconds * 1000) for seconds in (self.hello_s, self.ping_s, self.silence_s, self.again_s)
        )
        return (
            (host, address.port, str(address)),
            self.token,
            (round(self.timeout_s * 1000), f"{self.timeout_s:g} s"),
            (hello_ms, ping_ms, silence_ms, again_ms),
        )


def log_report(action: str, text: str) -> None:
    """Logs a report of the core, which calls this on its thread."""
    log("error" if action == "client_failed" else "warning", action, text)
