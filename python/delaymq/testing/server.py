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
STOP_MS = 5_000  # how long requests under way have to be answered at the end


class Server:
    """A server over a store of this process, at a port of this machine that was free.

    ::

        with delaymq.testing.serve(store) as server, delaymq.connect(server.url) as client:
            ...
    """

    def __init__(self, store: Store) -> None:
        """Made by `serve`."""
        self._store = store
        self._port = _held_port(self)
        self._core: _core.Server | None = self._started()
        self._url = f"delaymq://{self._core.addresses()[0]}"
        self._port = int(self._url.rpartition(":")[2])

    @property
    def url(self) -> str:
        """What `delaymq.connect` takes; it stays, whatever is restarted."""
        return self._url

    @property
    def store(self) -> Store:
        """The store that is served; after `crash` that of the next life."""
        return self._store

    def stop(self) -> None:
        """Ends the server, and answers first what is under way. Nobody is at the address until `restart`."""
        core, self._core = self._core, None
        if core is not None:
            core.stop(STOP_MS)
            core.wait(2 * STOP_MS)

    def restart(self) -> None:
        """Ends the server without waiting for anybody, as a network that fails, and starts it at its address.

        The store goes on. Clients connect again; what they had under way may have been done or not.
        """
        core, self._core = self._core, None
        if core is not None:
            core.stop(0)
            core.wait(2 * STOP_MS)
        self._core = self._started()

    def crash(self) -> None:
        """Ends server and store as `kill -9` ends their process, and starts them again: see `delaymq.testing.crash`."""
        core, self._core = self._core, None
        born = crash(self._store)
        if core is not None:
            core.stop(0)
            core.wait(2 * STOP_MS)
        self._store = born
        self._core = self._started()

    def _started(self) -> _core.Server:
        choices: ServerOptions = {
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
        return _core.Places.take(choices).serve(self._store._core)  # noqa: SLF001 - as `delaymq serve` does

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
    """A port of this machine that the system gives to nobody else while the server is there, running or not.

    It is bound, and not listened at: whoever connects is refused, and on Linux who binds it by its number, as the
    server does, may listen. Both say SO_REUSEADDR, without which neither could. Else the port of a server that is
    stopped could be another's when it starts again. Other systems let nobody share an address: 0, which is any port.
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
    """Serves a store of this process, at a free port of this machine, until the server is stopped.

    Args:
        store: An open store. Close it after the server is stopped; by a clock of yours, that is by which
            messages become due.

    Raises:
        Closed, ForkedProcess: The store is closed, or the parent process's.
        StorageError: The system gives no port or thread.
    """
    return Server(store)
