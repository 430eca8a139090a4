"""The thread of a client that reads from its socket and reconnects."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time

from delaymq.client.session.options import ClientOptions
from delaymq.client.session.requests import OnAnswer
from delaymq.client.session.self_connection import self_connection_error
from delaymq.client.session.session import Session
from delaymq.errors import StoreError, Unreachable
from delaymq.retries import backoff

PIECE_BYTES = 256 * 1024  # the most that one call reads or writes
RETRY_AFTER = backoff(first=0.05, factor=2, longest=5, jitter=0.3)


class SocketThread:
    """One session, its socket, and the thread that serves both.

    A caller writes its request itself as far as the socket accepts it. The thread writes the rest, reads,
    and runs timers.
    """

    def __init__(self, options: ClientOptions, opened: OnAnswer) -> None:
        """Begins to connect; `opened` is called with the result of the first connection."""
        self.session = Session(options, self._push, opened)
        self._options = options
        self._socket: socket.socket | None = None
        self._is_blocked = False
        self._is_woken = False
        self._wakes_at: float | None = None
        self._wake_reader, self._wake_writer = (
            os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        )
        self._thread = threading.Thread(target=self._run, name="delaymq-client", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the session; the thread closes the socket and ends."""
        self.session.end()
        with self.session.lock:
            self._wake()
            connected = self._socket is not None
        if connected and not self.is_current:
            self._thread.join(self._options.timeout_s)  # with a socket, the thread only has to close it

    @property
    def is_current(self) -> bool:
        """True if the caller is this thread, as it may be when the garbage collector runs."""
        return threading.current_thread() is self._thread

    # Called by any thread, with the lock held.

    def _push(self) -> None:
        caller = self.session.caller
        if self._socket is not None and caller is not None and not self._is_blocked:
            self._write(self._socket)
        due = self.session.next_due()
        if due is not None and (self._wakes_at is None or due < self._wakes_at):
            self._wake()

    def _write(self, to: socket.socket) -> None:
        caller = self.session.caller
        while caller is not None and caller.output_bytes:
            try:
                piece = caller.output(PIECE_BYTES)
                # A single bytecode: a KeyboardInterrupt between the two calls would send the same bytes twice.
                any(map(caller.sent, map(to.send, (piece,))))
            except BlockingIOError:
                self._is_blocked = True
                self._wake()
                return
            except OSError:
                self._is_blocked = True  # the thread reads the error
                self._wake()
                return

    def _wake(self) -> None:
        if not self._is_woken and not self.is_current:
            self._is_woken = True
            with contextlib.suppress(OSError):
                os.write(self._wake_writer, b"!")

    # The thread.

    def _run(self) -> None:
        attempt = 0
        try:
            while self.session.closed is None:
                cause: StoreError
                try:
                    connected = self._connect()
                except StoreError as error:
                    cause = error
                else:
                    cause = self._serve(connected)
                    attempt = 0 if self.session.ready else attempt
                self.session.lost(cause)
                attempt += 1
                self._back_off(attempt)
        except Exception as error:  # noqa: BLE001 - if this thread ended silently, waiters would never get an answer
            self.session.fail(error)
        finally:
            with self.session.lock:
                os.close(self._wake_reader)
                os.close(self._wake_writer)
                self._is_woken = True  # so that no thread writes into the closed pipe

    def _connect(self) -> socket.socket:
        address = self._options.address
        try:
            connected = socket.create_connection((address.host, address.port), self._options.hello_s)
        except (OSError, UnicodeError) as error:  # UnicodeError: IDNA refuses the name
            raise Unreachable(f"no server answers at {address}: {error}", reason=str(error)) from error
        if cause := self_connection_error(connected, address):
            connected.close()
            raise cause
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        return connected

    def _serve(self, connected: socket.socket) -> StoreError:
        """Transfers bytes until the connection is lost; returns the error."""
        address = self._options.address
        with connected:
            with self.session.lock:
                self._socket, self._is_blocked = connected, False
                self.session.begin()
            try:
                self._transfer(connected)
            except StoreError as error:
                return error
            except OSError as error:
                return Unreachable(f"the connection to {address} failed: {error}", reason=str(error))
            finally:
                with self.session.lock:
                    self._socket = None
            return Unreachable(f"the server at {address} closed the connection", reason="the server closed it")

    def _transfer(self, connected: socket.socket) -> None:
        """Reads, writes and runs timers until the peer closes the connection.

        Raises:
            StoreError: The session ends the connection.
            OSError: The socket failed.
        """
        session, poller = self.session, select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        while session.closed is None:
            with session.lock:
                due = self._wakes_at = session.next_due()
                self._is_woken = False
                poller.register(connected, select.POLLIN | (select.POLLOUT if self._is_blocked else 0))
            timeout_ms = None if due is None else max(0, int((due - time.monotonic()) * 1000) + 1)
            found = dict(poller.poll(timeout_ms))
            if self._wake_reader in found:
                _drain(self._wake_reader)
            happened = found.get(connected.fileno(), 0)
            if happened & select.POLLOUT:
                with session.lock:
                    self._is_blocked = False
                    self._write(connected)
            if happened & ~select.POLLOUT and not self._read(connected):
                return
            session.run_due()

    def _read(self, connected: socket.socket) -> bool:
        """Reads once; False at the end of the stream."""
        try:
            data = connected.recv(PIECE_BYTES)
        except BlockingIOError:
            return True
        if data:
            self.session.received(data)
        return bool(data)

    def _back_off(self, attempt: int) -> None:
        """Waits before the next attempt, longer after each."""
        end = time.monotonic() + RETRY_AFTER(attempt).total_seconds()
        while self.session.closed is None and (left := end - time.monotonic()) > 0:
            with self.session.lock:
                self._is_woken = False
            if select.select([self._wake_reader], [], [], left)[0]:
                _drain(self._wake_reader)


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends
