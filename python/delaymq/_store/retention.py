# ruff: noqa: PTH108, PTH118, PTH208 - importing pathlib takes longer than all of delaymq
"""Retention, pins and expiry.

The core removes a file once all messages in it are finished, neither of the two kept checkpoints needs it,
it is older than the retention (`keep_finished`, or the longest `keep_finished_of` of its subjects), and no
pin keeps it. Unfinished messages are never removed on their own: an operator enables expiry explicitly,
subject by subject, and each expiry is reported and counted.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.reports import log
from delaymq.durations import MOMENT_MS_MAX, Duration, delay_ms, moment
from delaymq.errors import Closed, InvalidArgument, PermissionDenied, StorageError

SWEEP_INTERVAL_S = 60.0  # time between two sweeps of expiry
PINS = "pins"


class RetentionPolicy(NamedTuple):
    """How long files and ready messages are kept.

    Attributes:
        keep_finished_ms: How long a file is kept after all its messages are finished.
        expire_ms: By subject, how long after its due time a message that no consumer took expires.
        keep_finished_of_ms: By subject, a retention that replaces `keep_finished_ms` for files with its messages.
    """

    keep_finished_ms: int
    expire_ms: Mapping[str, int] = MappingProxyType({})
    keep_finished_of_ms: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def made(
        cls,
        keep_finished: Duration,
        expire: Mapping[str, Duration] | None,
        keep_finished_of: Mapping[str, Duration] | None = None,
    ) -> RetentionPolicy:
        """Checks these arguments of `open`.

        Raises:
            WrongType, InvalidArgument: An argument is refused.
        """
        return cls(
            delay_ms(keep_finished, "keep_finished"),
            _by_subject("expire", expire),
            _by_subject("keep_finished_of", keep_finished_of),
        )


class ExpirySweep:
    """Expires messages of an open store, once a minute."""

    def __init__(self, core: _core.Store, policy: RetentionPolicy) -> None:
        self._core = core
        self._policy = policy
        self._next = 0.0

    @property
    def has_work(self) -> bool:
        """True if the policy lets messages of some subject expire."""
        return bool(self._policy.expire_ms)

    def run(self) -> None:
        """Expires messages, if the last sweep is long enough ago.

        Raises:
            Closed, Poisoned, ForkedProcess: The store accepts no calls any more.
        """
        now = time.monotonic()
        if not self.has_work or now < self._next:
            return
        self._next = now + SWEEP_INTERVAL_S
        for subject, after_ms in self._policy.expire_ms.items():
            try:
                _core.expire(self._core, subject, after_ms)
            except InvalidArgument:
                continue  # the subject does not exist yet
            except StorageError as error:
                log("warning", "expire", f"messages of {subject} could not be given up: {error}")


class Pin:
    """Keeps every file of a store, for a process that reads its folder. Release it, or use it in a `with`.

    Attributes:
        until: When the pin expires by itself, even if this process dies, by the store's clock.
    """

    until: datetime
    _numbers = itertools.count(1)

    def __init__(self, folder: str, now_ms: int, duration: Duration) -> None:
        """Use `Store.pin` instead.

        Raises:
            WrongType, InvalidArgument: `duration` is refused.
            StorageError: The file of the pin could not be created.
        """
        until_ms = now_ms + delay_ms(duration, "duration")
        if until_ms > MOMENT_MS_MAX:
            raise refused("duration", "an end before the year 10000", duration)
        self.until = moment(until_ms)
        name = f"{until_ms}-{os.getpid()}-{next(self._numbers)}"
        self._path = os.path.join(folder, PINS, name)
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            kind = PermissionDenied if isinstance(error, PermissionError) else StorageError
            raise kind(f"the pin {name} cannot be made: {error}", errno=error.errno or 0) from error

    def release(self) -> None:
        """Releases the files. A second call does nothing."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Pin(until={self.until.isoformat()})"


def pinned(core: _core.Store, folder: str, duration: Duration) -> Pin:
    """Pins the files of an open store.

    Raises:
        WrongType, InvalidArgument, StorageError, Closed, ForkedProcess: As `Store.pin`.
    """
    status = _core.status(core)
    if status["closed"]:
        raise Closed("the store is closed: open it to pin its files")
    return Pin(folder, status["now_ms"], duration)


def drop_expired_pins(folder: str, now_ms: int) -> None:
    """Removes pins that have expired without being released, such as those of a process that was killed."""
    for path, until_ms in _pins(folder):
        if until_ms <= now_ms:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _pins(folder: str) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(OSError):
        for name in os.listdir(os.path.join(folder, PINS)):
            until, dash, _ = name.partition("-")
            if dash and until.isdecimal():
                yield os.path.join(folder, PINS, name), int(until)


def _by_subject(argument: str, given: object) -> dict[str, int]:
    anything = {} if given is None else given
    if not isinstance(anything, Mapping):
        raise wrong_type(argument, "a mapping of subjects to durations", anything)
    for subject in anything:
        if not isinstance(subject, str):
            raise wrong_type(argument, "subjects that are str", subject)
        _check_name(argument, subject)
    return {subject: delay_ms(after, argument) for subject, after in anything.items()}


def _check_name(argument: str, subject: str) -> None:
    """Refuses a name that no subject can have: the sweep would look for it forever."""
    try:
        _core.check_subject(subject)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{argument}: {error}", argument=argument, expected=error.expected, found=error.found
        ) from None
