"""What a client was told when it was made."""

from __future__ import annotations

from dataclasses import dataclass

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.client.session.address import Address
from delaymq.durations import Duration, delay_ms

__all__ = ["TIMEOUT_S", "ClientOptions"]

TIMEOUT_S = 30.0  # how long a call waits for its answer
HELLO_S = 10.0  # how long a server may take to answer the first request
PING_S = 10.0  # after so long without a word, from here or from there, the server is asked for one
SILENCE_S = 30.0  # after so long it is given up


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of a client.

    Attributes:
        address: Where the server is.
        token: Proves that the client may connect, or empty.
        timeout_s: How long a call waits for its answer.
        deduplicate: Whether everything is published with `deduplicate`.
        retry_ambiguous: Whether what the server knows again by an id is sent again where its answer was lost.
        hello_s: How long the server may take to answer the first request.
        ping_s: After so long without a word, from here or from there, the server is asked for one.
        silence_s: After so long without a word the connection is given up.
    """

    address: Address
    token: bytes
    timeout_s: float
    deduplicate: bool
    retry_ambiguous: bool
    hello_s: float
    ping_s: float
    silence_s: float

    @classmethod
    def made(
        cls, url: str, token: str | bytes | None, timeout: Duration, *, deduplicate: bool, retry_ambiguous: bool
    ) -> ClientOptions:
        """The options, checked.

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
        timeout_s = timeout_ms / 1000
        options = cls(Address.of(url), proof, timeout_s, deduplicate, retry_ambiguous, HELLO_S, PING_S, SILENCE_S)
        options.hello()
        return options

    def hello(self) -> _core.Request:
        """The first request of a connection.

        Raises:
            TooLarge: The token has more than 1,024 bytes.
        """
        return _core.Request.hello(f"delaymq-python {_core.__version__}", self.token)
