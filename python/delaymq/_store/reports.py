"""Carries what the core reports (a repaired tail, a voided message, a full disk) into `logging`.

The core's threads never wait for Python: they leave reports in a bounded list. A thread fetches them
with the interpreter let go; an event loop fetches them when it is told of some.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from delaymq.errors import StoreError

if TYPE_CHECKING:
    from delaymq import _core

__all__ = ["Reports", "log"]

WAIT_MS = 1000  # how long one crossing waits for a report


class Reports:
    """The reports of one open store."""

    def __init__(self, core: _core.Store) -> None:
        self._core = core
        self._closed = threading.Event()

    def watch(self, meanwhile: Callable[[], None]) -> None:
        """Begins a daemon thread that logs each report, and calls `meanwhile` once a second or more often."""
        threading.Thread(target=self._run, args=(meanwhile,), name="delaymq-reports", daemon=True).start()

    def _run(self, meanwhile: Callable[[], None]) -> None:
        while not self._closed.is_set():
            try:
                meanwhile()
                self._log_next(WAIT_MS)
            except StoreError:
                return

    def log_waiting(self) -> None:
        """Logs what is there.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        while self._log_next(0):
            pass

    def _log_next(self, wait_ms: int) -> bool:
        report = self._core.next_report(wait_ms)
        if report is None:
            return False
        level, action, text = report
        log(level, action, text)
        return True

    def close(self) -> None:
        """Logs what is left. The thread ends by itself within a second."""
        self._closed.set()
        self.log_waiting()


def log(level: str, action: str, text: str) -> None:
    """One line to the logger `delaymq`; nobody sees it where nobody has set up logging."""
    # Imported when there is something to say, which in most programs is never.
    import logging  # noqa: PLC0415

    numbers = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
    logger = logging.getLogger("delaymq")
    if not logger.handlers:
        # Without any handler Python would print warnings.
        logger.addHandler(logging.NullHandler())
    logger.log(numbers.get(level, logging.WARNING), "%s", text, extra={"action": action})
