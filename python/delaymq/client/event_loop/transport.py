"""The connection of a client on an event loop, made again where it is lost."""

from __future__ import annotations

import asyncio
import time

from delaymq.client.session.options import ClientOptions
from delaymq.client.session.pending_request import OnAnswer
from delaymq.client.session.self_connection import self_connection_error
from delaymq.client.session.session import Session
from delaymq.client.threads.transport import PIECE_BYTES, RETRY_AFTER
from delaymq.errors import StoreError, Unreachable

__all__ = ["LoopTransport"]


class LoopTransport(asyncio.Protocol):
    """One session, and the transport that serves it. No thread is in it."""

    def __init__(self, options: ClientOptions, opened: OnAnswer) -> None:
        """Begins to connect; `opened` is told how the first connection went."""
        self.session = Session(options, self._push, opened)
        self._chosen = options
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_blocked = False
        self._writes_soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._over: asyncio.Future[StoreError] = self._loop.create_future()
        self._task = self._loop.create_task(self._run())

    async def end(self) -> None:
        """Nothing is asked any more: the connection is closed."""
        self.abandon(is_graceful=True)
        await asyncio.wait((self._task,))

    def abandon(self, *, is_graceful: bool = False) -> None:
        """As `end`, for who cannot wait."""
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
            await self._go_on()
        except Exception as error:  # noqa: BLE001 - without this task nobody who waits would ever be answered
            self._fail(error)

    async def _go_on(self) -> None:
        """Connects, and again where that is lost, until the session ends."""
        attempt = 0
        while self.session.closed is None:
            self._over = self._loop.create_future()
            trouble: StoreError
            try:
                await self._connect()
            except StoreError as error:
                trouble = error
            else:
                trouble = await self._over
                attempt = 0 if self.session.ready else attempt
            self._transport = None
            self.session.lost(trouble)
            if self.session.closed is None:
                attempt += 1
                await asyncio.sleep(RETRY_AFTER(attempt).total_seconds())

    async def _connect(self) -> None:
        address = self._chosen.address
        try:
            async with asyncio.timeout(self._chosen.hello_s):
                await self._loop.create_connection(lambda: self, address.host, address.port)
        except (OSError, UnicodeError) as error:  # the latter is of a name that IDNA refuses
            words = str(error) or "it takes no connection in time"
            raise Unreachable(f"no server answers at {address}: {words}", reason=words) from error

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a connection."""
        if not isinstance(transport, asyncio.Transport):
            return
        self._transport, self._is_blocked = transport, False
        connected = transport.get_extra_info("socket")  # a loop need not tell of it
        if connected is not None and (trouble := self_connection_error(connected, self._chosen.address)):
            self._give_up(trouble)
        else:
            self.session.begin()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        try:
            self.session.received(data)
        except StoreError as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - as in `_attend`
            self._fail(error)

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._is_blocked = True

    def resume_writing(self) -> None:
        """It does again."""
        self._is_blocked = False
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        address = self._chosen.address
        if exc is None:
            words, reason = f"the server at {address} closed the connection", "the server closed it"
        else:
            words, reason = f"the connection to {address} failed: {exc}", str(exc)
        self._give_up(Unreachable(words, reason=reason))

    def _give_up(self, trouble: StoreError) -> None:
        if self._transport is not None:
            self._transport.abort()
        if not self._over.done():
            self._over.set_result(trouble)

    def _fail(self, error: Exception) -> None:
        """The client cannot go on, for a reason that nobody foresaw: whoever waits is told so."""
        self.session.fail(error)
        if self._transport is not None:
            self._transport.abort()

    # Called by whoever asks.

    def _push(self) -> None:
        if not self._writes_soon and self._transport is not None:
            self._writes_soon = True
            self._loop.call_soon(self._write)
        due = self.session.next_due()
        if due is not None and (self._timer is None or due < self._timer_at):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._attend)

    def _write(self) -> None:
        self._writes_soon = False
        caller, transport = self.session.caller, self._transport
        while caller is not None and transport is not None and not self._is_blocked and caller.output_bytes:
            piece = caller.output(PIECE_BYTES)
            transport.write(piece)
            caller.sent(len(piece))

    def _attend(self) -> None:
        self._timer = None
        try:
            self.session.attend()
        except StoreError as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - the loop would log it, and nobody who waits would ever be answered
            self._fail(error)
            return
        self._push()
