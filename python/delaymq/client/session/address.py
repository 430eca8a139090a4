"""The address of a server: `delaymq://host:port`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from delaymq._arguments.argument_errors import refused, wrong_type

__all__ = ["PORT", "Address"]

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
