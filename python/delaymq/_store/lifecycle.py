"""The lifecycle of an open store: the order in which its parts start and stop, and the bases of all that is closed.

`START` lists all that happens before the first message can be published or delivered, and `STOP` all
that happens after the last one until the folder is free.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeAlias

from delaymq import _core
from delaymq._store.recovery import CLAIMS, OpenOptions, recover
from delaymq._store.reports import Reports
from delaymq._store.retention import ExpirySweep, RetentionPolicy, drop_expired_pins
from delaymq.errors import ForkedProcess


class Lifecycle:
    """An open store with its reports and its expiry."""

    core: _core.Store
    reports: Reports
    expiry: ExpirySweep

    def __init__(self, folder: str, *, watches: bool) -> None:
        """Opens nothing yet.

        Args:
            folder: The folder of the store.
            watches: True for a thread that logs reports and runs expiry; an event loop does both itself.
        """
        self.folder = folder
        self._watches = watches
        self._options: OpenOptions | None = None
        self._place: tuple[int, int] | None = None
        self._opened_by = os.getpid()
        self.stopped = False

    @classmethod
    def started(cls, options: OpenOptions, *, watches: bool) -> Lifecycle:
        """Opens a store and starts everything.

        Raises:
            StoreError, InvalidArgument, WrongType: As `delaymq.open`; nothing is left running.
        """
        lifecycle = cls(options.folder, watches=watches)
        lifecycle._options = options
        lifecycle._start(START)
        return lifecycle

    @classmethod
    def over(cls, core: _core.Store, folder: str) -> Lifecycle:
        """Starts everything around a store that is recovered already, which is closed if that fails."""
        lifecycle = cls(folder, watches=True)
        lifecycle.core = core
        lifecycle._start(START[1:])
        return lifecycle

    def _start(self, stages: tuple[Stage, ...]) -> None:
        """Runs the stages; if one fails, runs all of `STOP`."""
        try:
            for stage in stages:
                stage(self)
        except BaseException:
            self.stopped = True
            for stage in STOP:
                # Errors of the cleanup must not hide the error of the start.
                with contextlib.suppress(Exception):
                    stage(self)
            raise

    @property
    def is_here(self) -> bool:
        """True in the process that opened the store."""
        return os.getpid() == self._opened_by

    def stop(self) -> None:
        """Stops everything, even if one part fails. A second call does nothing.

        Raises:
            Poisoned: A write failed. Everything that was answered is safe; the next open repairs the rest.
            ForkedProcess: The store was opened by the parent process; nothing was touched.
        """
        if self.stopped:
            return
        if not self.is_here:
            self.core.close()  # raises, and touches nothing
        failed: BaseException | None = None
        for stage in STOP:
            try:
                stage(self)
            except ForkedProcess:
                raise
            except Exception as error:  # noqa: BLE001 - the other stages must run in any case
                failed = failed or error
        self.stopped = True
        if failed is not None:
            raise failed

    def _recover(self) -> None:
        if self._options is not None:
            self.core = recover(self._options)

    def _claim(self) -> None:
        self._place = CLAIMS.claim(self.folder)

    def _retire(self) -> None:
        drop_expired_pins(self.folder, _core.status(self.core)["now_ms"])
        policy = RetentionPolicy(keep_finished_ms=0) if self._options is None else self._options.policy
        self.expiry = ExpirySweep(self.core, policy)

    def _watch(self) -> None:
        self.reports = Reports(self.core)
        if self._watches:
            self.reports.watch(self.expiry.run)

    # Stages of STOP must accept that their part never started: a start may fail anywhere.

    def _close(self) -> None:
        if "core" in vars(self):
            self.core.close()

    def _log_remaining(self) -> None:
        if "reports" in vars(self):
            self.reports.close()

    def _release(self) -> None:
        if self._place is not None:
            CLAIMS.release(self._place)


Stage: TypeAlias = Callable[[Lifecycle], None]

START: Final[tuple[Stage, ...]] = (
    Lifecycle._recover,  # noqa: SLF001 - stages of this class, in order
    Lifecycle._claim,  # noqa: SLF001
    Lifecycle._retire,  # noqa: SLF001
    Lifecycle._watch,  # noqa: SLF001
)
STOP: Final[tuple[Stage, ...]] = (
    Lifecycle._close,  # noqa: SLF001
    Lifecycle._log_remaining,  # noqa: SLF001
    Lifecycle._release,  # noqa: SLF001
)


class Closing:
    """An object whose `close` is called at the end of a `with`."""

    def close(self) -> None:
        """Closes it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing:
    """An object whose `close` is awaited at the end of an `async with`."""

    async def close(self) -> None:
        """Closes it."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
