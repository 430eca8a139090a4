"""Servers for tests, in the process of the test."""

from __future__ import annotations

import socket
import sys
from types import TracebackType
from typing import Self
from weakref import finalize

from delaymq import _core
from delaymq._arguments.server_options import ServerOptions
from delaymq.errors import StorageError
from delaymq.store import Store
from delaymq.testing.store import crash

__all__ = ["Server", "serve"]

HOST = "127.0.0.1"
STOP_MS = 5_000  # how long requests in progress may take when the server stops


class Server:
    """A server over a store of this process, on a free port of the loopback address.

    ::

        with delaymq.testing.serve(store) as server, delaymq.connect(server.url) as client:
            ...
    """

    def __init__(self, store: Store) -> None:
        """Use `serve` instead."""
        self._store = store
        self._port = _held_port(self)
        self._core: _core.Server | None = self._started()
        self._url = f"delaymq://{self._core.addresses()[0]}"
        self._port = int(self._url.rpartition(":")[2])

    @property
    def url(self) -> str:
        """The URL for `delaymq.connect`. It does not change when the server or the store is restarted."""
        return self._url

    @property
    def store(self) -> Store:
        """The store that is served; after `crash`, the one that was opened again."""
        return self._store

    def stop(self) -> None:
        """Stops the server after answering requests in progress. No server listens at the address until `restart`."""
        self._end(STOP_MS)

    def restart(self) -> None:
        """Stops the server without waiting, like a network failure, and starts it again at its address.

        The store stays open. Clients reconnect; their requests in progress may have been executed or not.
        """
        self._end(0)
        self._core = self._started()

    def crash(self) -> None:
        """Ends server and store like `kill -9`, and starts them again: see `delaymq.testing.crash`."""
        reopened = crash(self._store)
        self._end(0)
        self._store = reopened
        self._core = self._started()

    def _end(self, patience_ms: int) -> None:
        core, self._core = self._core, None
        if core is not None:
            core.stop(patience_ms)
            core.wait(2 * STOP_MS)

    def _started(self) -> _core.Server:
        options: ServerOptions = {
            "host": HOST,
            "port": self._port,
            "http_host": HOST,
            "http_port": 0,
            "advertised_address": None,
            "token_hash": None,
            "admin_token_hash": None,
            "qmq_clients_from": [],
            "switched_off": None,
            "silence_ms": None,
            "consuming": {},
        }
        return _core.Places.take(options).serve(self._store._core)  # noqa: SLF001 - as `delaymq serve` does

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Server({self._url!r})"


def _held_port(server: Server) -> int:
    """A free port, which the system assigns to no other socket while the server object exists, running or not.

    A socket is bound to the port and never listens, so connections are refused while the server is stopped. On
    Linux the server may bind the same port explicitly and listen, since both sockets set SO_REUSEADDR. Without this
    socket, another process could get the port of a stopped server. Other systems do not allow a shared address: 0
    there, which means any port.
    """
    if sys.platform != "linux":
        return 0
    try:
        held = socket.socket()
        finalize(server, held.close)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
    except OSError as error:
        raise StorageError(f"the system gives no port: {error.strerror}", errno=error.errno or 0) from error
    port: int = held.getsockname()[1]
    return port


def serve(store: Store) -> Server:
    """Serves a store of this process on a free port of the loopback address, until the server is stopped.

    Args:
        store: An open store. Close it after the server is stopped. If it was opened with a `Clock`, that clock
            determines when messages are due.

    Raises:
        Closed, ForkedProcess: The store is closed, or was opened by the parent process.
        StorageError: The system has no free port or thread.
    """
    return Server(store)
