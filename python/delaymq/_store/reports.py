"""Writes the reports of the core (a repaired tail, a voided message, a full disk) to `logging`.

The core's threads never wait for Python: they put reports into a bounded queue. A Python thread fetches
them, without holding the interpreter; an event loop fetches them when it is notified.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from delaymq import _core
from delaymq.errors import StoreError

WAIT_MS = 1000  # how long one call waits for a report


class Reports:
    """The reports of one open store."""

    def __init__(self, core: _core.Store) -> None:
        self._core = core
        self._closed = threading.Event()

    def watch(self, meanwhile: Callable[[], None]) -> None:
        """Starts a daemon thread that logs each report, and calls `meanwhile` at least once a second."""
        threading.Thread(target=self._run, args=(meanwhile,), name="delaymq-reports", daemon=True).start()

    def _run(self, meanwhile: Callable[[], None]) -> None:
        while not self._closed.is_set():
            try:
                meanwhile()
                self._log_next(WAIT_MS)
            except StoreError:
                return

    def log_waiting(self) -> None:
        """Logs all queued reports.

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
        """Logs the remaining reports. The thread ends by itself within a second."""
        self._closed.set()
        self.log_waiting()


def log(level: str, action: str, text: str) -> None:
    """Logs one line to the logger `delaymq`, silently if logging is not configured."""
    # Imported on first use: most programs never log.
    import logging  # noqa: PLC0415

    numbers = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
    logger = logging.getLogger("delaymq")
    if not logger.handlers:
        # Without a handler, Python would print warnings to stderr.
        logger.addHandler(logging.NullHandler())
    logger.log(numbers.get(level, logging.WARNING), "%s", text, extra={"action": action})
