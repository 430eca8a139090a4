"""The bases of the classes that each have a part of the methods of a client."""

from __future__ import annotations

from typing import Any

from delaymq._core import Request
from delaymq.client.options import ClientOptions


class ClientPart:
    """A part of the methods of `Client`."""

    _options: ClientOptions

    def _stream(self) -> bytes:
        """The stream of the server's store."""
        raise NotImplementedError

    def _call(
        self, request: Request, *, reads: bool = False, retry: bool = False, retry_for_ms: int | None = None
    ) -> Any:  # noqa: ANN401 - whatever it is answered with
        """Sends the request and waits for its answer."""
        raise NotImplementedError


class AsyncClientPart:
    """A part of the methods of `AsyncClient`."""

    _options: ClientOptions

    def _stream(self) -> bytes:
        """The stream of the server's store."""
        raise NotImplementedError

    async def _call(
        self, request: Request, *, reads: bool = False, retry: bool = False, retry_for_ms: int | None = None
    ) -> Any:  # noqa: ANN401 - as above
        """Sends the request and waits for its answer."""
        raise NotImplementedError
