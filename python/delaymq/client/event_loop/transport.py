"""The connection of a client on an event loop, with reconnection."""

from __future__ import annotations

import asyncio
import time

from delaymq.client.session.options import ClientOptions
from delaymq.client.session.requests import OnAnswer
from delaymq.client.session.self_connection import self_connection_error
from delaymq.client.session.session import Session
from delaymq.client.threads.transport import PIECE_BYTES, RETRY_AFTER
from delaymq.errors import StoreError, Unreachable


class LoopTransport(asyncio.Protocol):
    """One session and the asyncio transport that serves it, without a thread."""

    def __init__(self, options: ClientOptions, opened: OnAnswer) -> None:
        """Begins to connect; `opened` is called with the result of the first connection."""
        self.session = Session(options, self._push, opened)
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_blocked = False
        self._write_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._disconnected: asyncio.Future[StoreError] = self._loop.create_future()
        self._task = self._loop.create_task(self._run())

    async def end(self) -> None:
        """Sends the remaining output, closes the connection and waits for its end."""
        self.abandon(is_graceful=True)
        await asyncio.wait((self._task,))

    def abandon(self, *, is_graceful: bool = False) -> None:
        """As `end`, without waiting."""
        self.session.end()
        if self._loop.is_closed():
            return  # the socket goes with its transport
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._write()
            self._transport.close() if is_graceful else self._transport.abort()
        self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._keep_connected()
        except Exception as error:  # noqa: BLE001 - if this task ended silently, waiters would never get an answer
            self._fail(error)

    async def _keep_connected(self) -> None:
        """Connects, and reconnects when the connection is lost, until the session ends."""
        attempt = 0
        while self.session.closed is None:
            self._disconnected = self._loop.create_future()
            cause: StoreError
            try:
                await self._connect()
            except StoreError as error:
                cause = error
            else:
                cause = await self._disconnected
                attempt = 0 if self.session.ready else attempt
            self._transport = None
            self.session.lost(cause)
            if self.session.closed is None:
                attempt += 1
                await asyncio.sleep(RETRY_AFTER(attempt).total_seconds())

    async def _connect(self) -> None:
        address = self._options.address
        try:
            async with asyncio.timeout(self._options.hello_s):
                await self._loop.create_connection(lambda: self, address.host, address.port)
        except (OSError, UnicodeError) as error:  # UnicodeError: IDNA refuses the name
            words = str(error) or "it takes no connection in time"
            raise Unreachable(f"no server answers at {address}: {words}", reason=words) from error

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins the session's connection."""
        if not isinstance(transport, asyncio.Transport):
            return
        self._transport, self._is_blocked = transport, False
        connected = transport.get_extra_info("socket")  # None in loops that do not provide it
        if connected is not None and (cause := self_connection_error(connected, self._options.address)):
            self._disconnect(cause)
        else:
            self.session.begin()

    def data_received(self, data: bytes) -> None:
        """Passes received bytes to the session."""
        try:
            self.session.received(data)
        except StoreError as error:
            self._disconnect(error)
        except Exception as error:  # noqa: BLE001 - as in `_run_due`
            self._fail(error)

    def pause_writing(self) -> None:
        """Stops writing while the socket accepts no more."""
        self._is_blocked = True

    def resume_writing(self) -> None:
        """Continues to write."""
        self._is_blocked = False
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        """Reports the lost connection."""
        address = self._options.address
        if exc is None:
            words, reason = f"the server at {address} closed the connection", "the server closed it"
        else:
            words, reason = f"the connection to {address} failed: {exc}", str(exc)
        self._disconnect(Unreachable(words, reason=reason))

    def _disconnect(self, cause: StoreError) -> None:
        if self._transport is not None:
            self._transport.abort()
        if not self._disconnected.done():
            self._disconnected.set_result(cause)

    def _fail(self, error: Exception) -> None:
        """Ends the client after an unexpected error, which all waiters get."""
        self.session.fail(error)
        if self._transport is not None:
            self._transport.abort()

    # Called by the session.

    def _push(self) -> None:
        if not self._write_scheduled and self._transport is not None:
            self._write_scheduled = True
            self._loop.call_soon(self._write)
        due = self.session.next_due()
        if due is not None and (self._timer is None or due < self._timer_at):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._run_due)

    def _write(self) -> None:
        self._write_scheduled = False
        caller, transport = self.session.caller, self._transport
        while caller is not None and transport is not None and not self._is_blocked and caller.output_bytes:
            piece = caller.output(PIECE_BYTES)
            transport.write(piece)
            caller.sent(len(piece))

    def _run_due(self) -> None:
        self._timer = None
        try:
            self.session.run_due()
        except StoreError as error:
            self._disconnect(error)
        except Exception as error:  # noqa: BLE001 - the loop would only log it, and waiters would never get an answer
            self._fail(error)
            return
        self._push()
