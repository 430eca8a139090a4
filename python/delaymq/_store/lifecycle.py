"""What runs while a store is open: the order in which it starts, and the order in which it ends.

Everything that happens before the first message can be published or handed over stands in `START`,
and everything between the last one and the folder being free in `STOP`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from delaymq._store.recovery import CLAIMS, OpenOptions, recover
from delaymq._store.reports import Reports
from delaymq._store.retention import ExpirySweep, RetentionPolicy, drop_expired_pins
from delaymq.errors import ForkedProcess

if TYPE_CHECKING:
    from delaymq import _core

__all__ = ["Lifecycle"]


class Lifecycle:
    """An open store and what runs beside it."""

    core: _core.Store
    reports: Reports
    expiry: ExpirySweep

    def __init__(self, folder: str, *, watches: bool) -> None:
        """Nothing is open yet.

        Args:
            folder: The folder of the store.
            watches: True for a thread that looks after the store; an event loop does it itself.
        """
        self.folder = folder
        self._watches = watches
        self._chosen: OpenOptions | None = None
        self._place: tuple[int, int] | None = None
        self._opened_by = os.getpid()
        self.stopped = False

    @classmethod
    def started(cls, chosen: OpenOptions, *, watches: bool) -> Lifecycle:
        """A node that runs.

        Raises:
            StoreError, InvalidArgument, WrongType: As `delaymq.open` says; nothing is left running.
        """
        node = cls(chosen.folder, watches=watches)
        node._chosen = chosen
        node._start(START)
        return node

    @classmethod
    def over(cls, core: _core.Store, folder: str) -> Lifecycle:
        """A node around a store that is recovered already; where that fails it is closed."""
        node = cls(folder, watches=True)
        node.core = core
        node._start(START[1:])
        return node

    def _start(self, stages: tuple[Stage, ...]) -> None:
        """Runs the stages, and where one fails ends what those before it began."""
        try:
            for stage in stages:
                stage(self)
        except BaseException:
            self.stopped = True
            for stage in STOP:
                # What made the start fail is told, not what its undoing met.
                with contextlib.suppress(Exception):
                    stage(self)
            raise

    @property
    def is_here(self) -> bool:
        """True in the process that opened the store."""
        return os.getpid() == self._opened_by

    def stop(self) -> None:
        """Ends everything, also where a part of it fails. A second call does nothing.

        Raises:
            Poisoned: A write failed; what was answered is safe, the next open repairs the rest.
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
            except Exception as error:  # noqa: BLE001 - the other stages end all the same
                failed = failed or error
        self.stopped = True
        if failed is not None:
            raise failed

    def _recover(self) -> None:
        if self._chosen is not None:
            self.core = recover(self._chosen)

    def _claim(self) -> None:
        self._place = CLAIMS.claim(self.folder)

    def _retire(self) -> None:
        drop_expired_pins(self.folder, self.core.status()["now_ms"])
        policy = RetentionPolicy(keep_finished_ms=0) if self._chosen is None else self._chosen.policy
        self.expiry = ExpirySweep(self.core, policy)

    def _watch(self) -> None:
        self.reports = Reports(self.core)
        if self._watches:
            self.reports.watch(self.expiry.look)

    # Each end lets be what never began: a start that fails may have come to any place.

    def _close(self) -> None:
        if "core" in vars(self):
            self.core.close()

    def _report_the_last(self) -> None:
        if "reports" in vars(self):
            self.reports.close()

    def _release(self) -> None:
        if self._place is not None:
            CLAIMS.release(self._place)


Stage: TypeAlias = Callable[[Lifecycle], None]

START: Final[tuple[Stage, ...]] = (
    Lifecycle._recover,  # noqa: SLF001 - the node's own stages, in their order
    Lifecycle._claim,  # noqa: SLF001
    Lifecycle._retire,  # noqa: SLF001
    Lifecycle._watch,  # noqa: SLF001
)
STOP: Final[tuple[Stage, ...]] = (
    Lifecycle._close,  # noqa: SLF001
    Lifecycle._report_the_last,  # noqa: SLF001
    Lifecycle._release,  # noqa: SLF001
)
