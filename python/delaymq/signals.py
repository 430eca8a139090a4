"""Stops consumers cleanly when a signal arrives. No other module of delaymq handles signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from delaymq._arguments.argument_errors import unexpected, wrong_type

__all__ = ["Stoppable", "stop_on_signals"]

UNCATCHABLE = (signal.SIGKILL, signal.SIGSTOP)


class Stoppable(Protocol):
    """A subscription, plain or asyncio, or another object with `stop`."""

    def stop(self) -> None:
        """Ends its waits. It is called from a signal handler."""


@contextmanager
def stop_on_signals(
    *stoppables: Stoppable, signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Stops subscriptions when one of the signals arrives, so that their loops end and `with` blocks are left cleanly.

    ::

        with store.subscribe("order.timeout", group="billing") as messages, delaymq.stop_on_signals(messages):
            for message in messages:
                ...

    The first signal stops the subscriptions and restores the earlier handlers, so that a second Ctrl-C raises
    KeyboardInterrupt as usual. The end of the block restores them as well.

    Args:
        stoppables: The subscriptions to stop.
        signals: The signals, SIGINT and SIGTERM by default.

    Raises:
        WrongType: An argument has no `stop`, or is not a signal.
        InvalidArgument: This is not the main thread, which alone may handle signals; or no process may
            handle one of the signals, such as SIGKILL.
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
                # None: the handler was not set from Python, and cannot be set again from here.
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
        if number in UNCATCHABLE:
            raise unexpected("signals", "signals that a process may handle", number.name)
    if threading.current_thread() is not threading.main_thread():
        hint = "; call it there, and stop() from anywhere"
        raise unexpected("signals", "the main thread", "another thread", hint)
