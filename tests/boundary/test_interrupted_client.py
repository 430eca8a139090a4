"""Ctrl-C in a client, at each moment at which a signal is looked for: nothing hangs, nothing is stored twice."""

from __future__ import annotations

import ctypes
import dis
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import delaymq
from faces import Served

PLACES = ("/delaymq/",)
TIMEOUT_S = 20
LONGEST_S = 5  # what one moment and what follows it may take, which is some hundredths of a second
SLOW_MAX = 2  # so many may take longer, but not a timeout, and are tried again: a machine may stand still for a while
SOON_S = 0.00002  # when the next try comes
NOT_REACHED_MAX = 30  # so many moments in a row that a use ended before: there are none behind them
CALLS = {"publish", "_batches", "ack", "flush", "subscribe", "get", "__exit__"}  # what `use` calls, as they are named


class Interrupter:
    """Has SIGINT arrive in this thread, in the code of the client, just before the n-th instruction that looks for it.

    CPython looks for signals after a call and where a loop jumps back. A trace function of Python looks for them
    itself, so what sets the signal off, and what is called from then on, is C.
    """

    def __init__(self, moment: int) -> None:
        self.left = moment
        self.place = ""
        self.call = ""
        self._looks: dict[CodeType, set[int]] = {}

    def run(self, function: Callable[[], None]) -> bool:
        """False where the function ended before that moment."""
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    def _entered(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        if not any(place in frame.f_code.co_filename for place in PLACES):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        if event != "opcode" or frame.f_lasti not in self._before_looks(frame.f_code):
            return self._stepped
        self.left -= 1
        if self.left:
            return self._stepped
        self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        sys.settrace(ignored)
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_back is not None and caller.f_back.f_code is use.__code__:
                self.call = caller.f_code.co_name
            if caller is not frame:
                caller.f_trace = ignored
            caller = caller.f_back
        last: Callable[..., Any] = set_off
        return last

    def _before_looks(self, code: CodeType) -> set[int]:
        """Where the instructions are whose next one looks for signals."""
        found = self._looks.get(code)
        if found is None:
            steps = list(dis.get_instructions(code))
            found = {step.offset for step, then in pairwise(steps) if then.opname.startswith(("CALL", "JUMP_BACKWARD"))}
            self._looks[code] = found
        return found


# Trace functions of C, which take three objects and give None: to do nothing, and to have SIGINT arrive once.
ignored: Any = ctypes.pythonapi["Py_IsInitialized"]
set_off: Any = ctypes.pythonapi["PyErr_SetInterrupt"]
for tracing in (ignored, set_off):
    tracing.argtypes = [ctypes.py_object] * 3
ignored.restype = None
set_off.restype = partial({True: ignored}.get, True)


def consumed_until(messages: delaymq.Subscription, last: bytes) -> list[bytes]:
    bodies: list[bytes] = []
    while last not in bodies:
        message = messages.get(TIMEOUT_S)
        assert message is not None, bodies
        bodies.append(message.body)
        message.ack()
    return bodies


def use(client: delaymq.Client, messages: delaymq.Subscription, body: bytes) -> None:
    client.publish("a", body)
    messages.ack(next(messages.batches(10, TIMEOUT_S)))
    messages.flush()
    with client.subscribe("a", group="another") as others:
        others.get(0.002)
        others.get(0)


class Timed:
    """Has Ctrl-C come to the code of the client after a time, which is mostly while a call waits in the core.

    It comes to no other code: what counts the lines of the tests would keep its lock.
    """

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._is_over = False

    def run(self, function: Callable[[], None]) -> bool:
        """False where the function ended before that time."""
        before = signal.signal(signal.SIGALRM, self._handle)
        signal.setitimer(signal.ITIMER_REAL, self._after_s)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            # A signal that comes now must not set the timer again: the handler before would get the next one.
            self._is_over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return False

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        if self._is_over:
            return
        if frame is not None and str(frame.f_globals.get("__name__")).startswith("delaymq."):
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, SOON_S)


class Interrupted:
    """Uses of a client that are interrupted, each by a client of its own, and what is stored by them."""

    def __init__(self, url: str, everything: delaymq.Subscription) -> None:
        self.calls = Counter[str]()
        self.stored = Counter[bytes]()
        self._url = url
        self._everything = everything
        self._uses = 0
        self._slow: list[str] = []

    def at(self, moment: int) -> bool:
        """False where the use ended before."""
        while True:
            began = time.monotonic()
            interrupter = Interrupter(moment)
            was_interrupted = self.used(interrupter)
            if was_interrupted:
                self.calls[interrupter.call] += 1
            took = time.monotonic() - began
            if took < LONGEST_S:
                return was_interrupted
            assert took < TIMEOUT_S, interrupter.place
            self._slow.append(interrupter.place)
            assert len(self._slow) <= SLOW_MAX, self._slow

    def used(self, interrupter: Interrupter | Timed) -> bool:
        """One use of a client; False where it was not interrupted."""
        self._uses += 1
        last = b"last %d" % self._uses
        with delaymq.connect(self._url, timeout=TIMEOUT_S) as client:
            messages = client.subscribe("a", group="g")
            was_interrupted = interrupter.run(partial(use, client, messages, b"%d" % self._uses))
            messages.close()
            with client.subscribe("a", group="g") as again:
                client.publish("a", last)
                consumed_until(again, last)
            self.stored.update(consumed_until(self._everything, last))
        return was_interrupted


# Between its making and its `with` a subscription belongs to nobody who could close it.
@pytest.mark.filterwarnings("ignore:.*was not closed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(600)  # some five hundred uses, which take half a minute on a busy machine
def test_ctrl_c_at_any_moment_leaves_a_client_that_goes_on(folder: Path) -> None:
    served = Served(folder)
    moment, not_reached = 0, 0
    with (
        delaymq.connect(served.url, timeout=TIMEOUT_S) as watching,
        watching.subscribe("a", group="everything") as everything,
    ):
        interrupted = Interrupted(served.url, everything)
        # How many moments there are differs from use to use, with what the threads of the client do meanwhile.
        while not_reached < NOT_REACHED_MAX:
            moment += 1
            not_reached = 0 if interrupted.at(moment) else not_reached + 1
    served.close()
    assert interrupted.calls.keys() >= CALLS
    assert interrupted.calls.total() > 100  # some 160; the waits themselves are in the core
    assert [(body, count) for body, count in interrupted.stored.items() if count != 1] == []


@pytest.mark.filterwarnings("ignore:.*was not closed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(600)
def test_ctrl_c_while_the_core_waits_leaves_a_client_that_goes_on(folder: Path) -> None:
    served = Served(folder)
    with (
        delaymq.connect(served.url, timeout=TIMEOUT_S) as watching,
        watching.subscribe("a", group="everything") as everything,
    ):
        interrupted = Interrupted(served.url, everything)
        times = [interrupted.used(Timed(0.00005 * step)) for step in range(1, 200)]
    served.close()
    assert sum(times) > 20  # a use takes some milliseconds
    assert [(body, count) for body, count in interrupted.stored.items() if count != 1] == []
