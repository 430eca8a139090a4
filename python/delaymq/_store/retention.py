# ruff: noqa: PTH108, PTH118, PTH208 - importing pathlib takes longer than all of delaymq
"""When files go, and what an operator chose to give up.

The core removes a file once all in it is finished, both kept checkpoints can do without it, it is older
than `keep_finished`, or than what `keep_finished_of` says of a subject with messages in it, and no pin
holds it. Unfinished messages never go by themselves: that they may is
an operator's explicit choice, subject by subject, and each time it is reported and counted.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from delaymq import _core
from delaymq._arguments.argument_errors import wrong_type
from delaymq._store.reports import log
from delaymq.durations import MOMENT_MS_MAX, Duration, delay_ms, moment
from delaymq.errors import Closed, InvalidArgument, PermissionDenied, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EVERY_S", "ExpirySweep", "Pin", "RetentionPolicy", "drop_expired_pins", "pinned"]

EVERY_S = 60.0  # how often expiry is looked after
PINS = "pins"


class RetentionPolicy(NamedTuple):
    """What may go when.

    Attributes:
        keep_finished_ms: How long files are kept after all in them is finished.
        expire_ms: For a subject, how long after it was due a message that nobody took is given up.
        keep_finished_of_ms: For a subject, how long files with messages of it are kept instead.
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
        """Checks what `open` was given.

        Raises:
            WrongType, InvalidArgument: It is refused.
        """
        return cls(
            delay_ms(keep_finished, "keep_finished"),
            _by_subject("expire", expire),
            _by_subject("keep_finished_of", keep_finished_of),
        )


class ExpirySweep:
    """Looks after the expiry of an open store, now and then."""

    def __init__(self, core: _core.Store, policy: RetentionPolicy) -> None:
        self._core = core
        self._policy = policy
        self._next = 0.0

    @property
    def has_work(self) -> bool:
        """True where something may ever expire."""
        return bool(self._policy.expire_ms)

    def look(self) -> None:
        """Gives up what has expired, where the last look is long enough ago.

        Raises:
            Closed, Poisoned, ForkedProcess: The store can do no more.
        """
        now = time.monotonic()
        if not self.has_work or now < self._next:
            return
        self._next = now + EVERY_S
        for subject, after_ms in self._policy.expire_ms.items():
            try:
                _core.expire(self._core, subject, after_ms)
            except InvalidArgument:
                continue  # nobody has published on it yet
            except StorageError as error:
                log("warning", "expire", f"messages of {subject} could not be given up: {error}")


class Pin:
    """Holds every file of a store, for a reader of the folder beside it. Release it, or use it in a `with`.

    Attributes:
        until: When it ends by itself, whatever becomes of this process, by the store's clock.
    """

    until: datetime
    _numbers = itertools.count(1)

    def __init__(self, folder: str, now_ms: int, duration: Duration) -> None:
        """Made by `Store.pin`.

        Raises:
            WrongType, InvalidArgument: `duration` is refused.
            StorageError: The file of the pin could not be made.
        """
        until_ms = now_ms + delay_ms(duration, "duration")
        if until_ms > MOMENT_MS_MAX:
            raise InvalidArgument(
                f"duration: expected an end before the year 10000, found {duration!r}",
                argument="duration",
                expected="an end before the year 10000",
                found=repr(duration),
            )
        self.until = moment(until_ms)
        name = f"{until_ms}-{os.getpid()}-{next(self._numbers)}"
        self._path = os.path.join(folder, PINS, name)
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            kind = PermissionDenied if isinstance(error, PermissionError) else StorageError
            raise kind(f"the pin {name} cannot be made: {error}", errno=error.errno or 0) from error

    def release(self) -> None:
        """Lets the files go. A second call does nothing."""
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
    """A pin on the files of an open store.

    Raises:
        WrongType, InvalidArgument, StorageError, Closed, ForkedProcess: As `Store.pin`.
    """
    status = core.status()
    if status["closed"]:
        raise Closed("the store is closed: open it to pin its files")
    return Pin(folder, status["now_ms"], duration)


def drop_expired_pins(folder: str, now_ms: int) -> None:
    """Removes pins that ended while nobody released them, such as those of a reader that was killed."""
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
    """A name that no subject can have would be looked for again and again, for ever."""
    try:
        _core.check_subject(subject)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{argument}: {error}", argument=argument, expected=error.expected, found=error.found
        ) from None
