"""Ending a consumer in order when a signal comes. Nothing else in delaymq touches signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from delaymq._arguments.argument_errors import wrong_type
from delaymq.errors import InvalidArgument

__all__ = ["Stoppable", "stop_on_signals"]

NOBODY_S = (signal.SIGKILL, signal.SIGSTOP)


class Stoppable(Protocol):
    """A subscription of either face, or anything else that stops."""

    def stop(self) -> None:
        """Ends its waits; called from a signal handler."""


@contextmanager
def stop_on_signals(
    *stoppables: Stoppable, signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Stops subscriptions when one of the signals comes, so that their loops end and blocks are left in order.

    ::

        with store.subscribe("order.timeout", group="billing") as messages, delaymq.stop_on_signals(messages):
            for message in messages:
                ...

    The first signal stops, what had handled them before handles the next: a second Ctrl-C raises
    KeyboardInterrupt as ever. At the end of the block all handlers are as they were.

    Args:
        stoppables: What to stop.
        signals: Which signals, SIGINT and SIGTERM by default.

    Raises:
        WrongType: Something has no `stop`, or is not a signal.
        InvalidArgument: This is not the main thread, which alone may handle signals; or no process may
            handle one of them, such as SIGKILL.
    """
    _check(stoppables, signals)
    before = {number: signal.getsignal(number) for number in signals}

    def stop(_number: int, _frame: FrameType | None) -> None:
        restore()
        for stoppable in stoppables:
            stoppable.stop()

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is stop:
                # None stands for a handler that is not Python's, which cannot be set again from here.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    try:
        for number in signals:
            signal.signal(number, stop)
        yield
    finally:
        restore()


def _check(stoppables: Sequence[Stoppable], signals: Sequence[signal.Signals]) -> None:
    for stoppable in stoppables:
        if not callable(getattr(stoppable, "stop", None)):
            raise wrong_type("stoppables", "what has a stop()", stoppable)
    anything: object = signals
    if isinstance(anything, str | bytes) or not isinstance(anything, Sequence):
        raise wrong_type("signals", "a tuple or list of signals", anything)
    for number in anything:
        if not isinstance(number, signal.Signals):
            raise wrong_type("signals", "signals, such as signal.SIGTERM", number)
        if number in NOBODY_S:
            raise InvalidArgument(
                f"signals: expected signals that a process may handle, found {number.name}",
                argument="signals",
                expected="signals that a process may handle",
                found=number.name,
            )
    if threading.current_thread() is not threading.main_thread():
        found = "another thread"
        raise InvalidArgument(
            f"signals: expected the main thread, found {found}; call it there, and stop() from anywhere",
            argument="signals",
            expected="the main thread",
            found=found,
        )
