"""Turning the clock of a copy, as quickly as it can be turned, and handing what becomes due to modelled consumers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.durations import Duration, delay_ms, due_ms, moment
from delaymq.simulate.consumers import Modelled, Predicted
from delaymq.simulate.recurrence_limit import RECURRING_MAX, Recurred
from delaymq.simulate.store_copy import copied
from delaymq.store import Store
from delaymq.subscription import Subscription
from delaymq.testing.clock import Clock

__all__ = ["GROUP", "simulate"]

GROUP = "simulate"
"""Consumes a subject that has no group."""
STEP = timedelta(seconds=1)
BATCH = 1024
IN_FLIGHT_MAX = 65_535
SLEEP_MAX_S = 3600.0
"""A clock may be slowed down to where one sleep would be longer than the system can count."""

Told = Callable[[datetime, int], None]


def simulate(
    path: str | os.PathLike[str],
    *,
    until: datetime,
    rate: float,
    rates: Mapping[str, float] | None = None,
    start: datetime | None = None,
    speed: float | None = None,
    step: Duration = STEP,
    folder: str | os.PathLike[str] | None = None,
    recurring_max: int = RECURRING_MAX,
    progress: Told | None = None,
) -> list[Predicted]:
    """Lives through what is pending in a copy of a store, and tells how late each group will be.

    The store may be open: the copy is of one moment then, and whoever has it open goes on and is not slowed by a lock.
    The copy is a store of its own on a clock that is turned: what is cancelled or moved, due, ready and given back is
    as the store has it. New messages do not come, but those of series do. A group takes `rate` messages a second, one
    after the other.

    Args:
        path: The store's folder, open or not. Nothing in it is changed; one that is not open cannot be opened while it
            is copied, and one that is has a pin meanwhile, so that none of its files goes.
        until: When to stop, an aware datetime after `start`.
        rate: Messages a second that each group handles, above zero.
        rates: The same for subjects by name, instead of `rate`.
        start: When to begin, an aware datetime that the store has not seen yet; by default now, once it is copied. What
            was due before is ready then.
        speed: So many times as fast as the time it is about, at the most, above zero; None is as fast as it goes, and
            times at which nothing is due take none.
        step: How far the clock is turned at a time, at least a millisecond. Lateness is exact whatever it is.
        folder: Where the copy is made, on the file system of the store if its runs are to take no room again.
        recurring_max: How many messages of series may be handed to groups before it gives up: a series has no end, and
            one message a second makes a step of each second.
        progress: Is called after each step with the time and with how many messages have come.

    Returns:
        A row for each subject and group that had messages, the latest first.

    Raises:
        WrongType, InvalidArgument: An argument is none of what is said here.
        TooLarge: Series send more than `recurring_max` messages by `until`; said at once where intervals alone do.
        Locked: Somebody has the store open, and no pin can be left in its folder.
        NotAStore, Corrupt, NewerFormat, StorageError: As `delaymq.open`.
    """
    begins_ms = due_ms(start, "start") if start is not None else due_ms(datetime.now(UTC))
    ends_ms = due_ms(until, "until")
    if ends_ms <= begins_ms:
        raise refused("until", f"a time after {moment(begins_ms).isoformat()}", until.isoformat())
    if (step_ms := delay_ms(step, "step")) < 1:
        raise refused("step", "a millisecond or more", step)
    limits = {subject: _positive(f"rates[{subject!r}]", one) for subject, one in (rates or {}).items()}
    everybody = _positive("rate", rate)
    pace = None if speed is None else _positive("speed", speed)
    most = _whole("recurring_max", recurring_max)
    with copied(Path(path), None if folder is None else Path(folder)) as copy:
        begins_ms = begins_ms if start is not None else min(due_ms(datetime.now(UTC)), ends_ms)  # once it is copied
        clock = Clock(moment(begins_ms))
        with _opened(copy, clock) as store, ExitStack() as consuming:
            groups = _groups(store)
            _refuse_unknown(limits, store, groups)
            run = _Run(store, clock, Recurred(store.recurring(), groups, most))
            run.recurred.foresee(begins_ms, ends_ms)
            for subject, group in groups:
                messages = consuming.enter_context(store.subscribe(subject, group=group, in_flight_max=IN_FLIGHT_MAX))
                run.consumers[messages] = Modelled(subject, group, limits.get(subject, everybody), begins_ms)
            run.until(begins_ms, ends_ms, step_ms, pace, progress)
            found = [consumer.predicted(ends_ms) for consumer in run.consumers.values()]
    return sorted((one for one in found if one.messages), key=lambda one: (-one.late_max, one.subject, one.group))


def _opened(copy: Path, clock: Clock) -> Store:
    """The copy, of which nobody looks at what is finished: what series send takes no room then for long."""
    return Store.open(copy, durability="os", clock=clock, create=False, keep_finished=0)


def _positive(argument: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(argument, "a number", value)
    if not (value > 0 and math.isfinite(value)):
        raise refused(argument, "a number above zero", value)
    return float(value)


def _whole(argument: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(argument, "a whole number", value)
    if value < 0:
        raise refused(argument, "a whole number, zero or more", value)
    return value


def _refuse_unknown(limits: Mapping[str, float], store: Store, groups: Sequence[tuple[str, str]]) -> None:
    known = {subject for subject, _ in groups}.union(one.name for one in store.subjects())
    for subject in sorted(limits.keys() - known):
        raise refused(f"rates[{subject!r}]", "a subject of the store", subject)


def _groups(store: Store) -> list[tuple[str, str]]:
    """Each subject with something pending or ready, with each of its groups."""
    groups: dict[str, list[str]] = {}
    for group in store.groups():
        groups.setdefault(group.subject, []).append(group.name)
    pending = store.pending_counts()
    named = [(subject, name) for subject, names in groups.items() for name in names]
    return named + [(subject, GROUP) for subject in pending if subject not in groups]


class _Run:
    """A store whose clock is turned."""

    def __init__(self, store: Store, clock: Clock, recurred: Recurred) -> None:
        self.consumers: dict[Subscription, Modelled] = {}
        self.recurred = recurred
        self._store, self._clock = store, clock
        self._came = 0

    def until(self, begins_ms: int, ends_ms: int, step_ms: int, speed: float | None, progress: Told | None) -> None:
        """Turns the clock step by step, and past the times at which nothing is due."""
        started, now_ms = time.monotonic(), begins_ms
        while True:
            came = self._hand_over()
            if progress is not None:
                progress(moment(now_ms), self._came)
            if now_ms >= ends_ms:
                return
            next_ms = now_ms + step_ms if came else self._next_due(now_ms, step_ms, ends_ms)
            now_ms = min(next_ms, ends_ms)
            if speed is not None:
                _sleep_until(started + (now_ms - begins_ms) / 1000 / speed)
            self._clock.advance_to(moment(now_ms))

    def _next_due(self, now_ms: int, step_ms: int, ends_ms: int) -> int:
        first = next(iter(self._store.pending(prefix="")), None)
        return ends_ms if first is None else max(due_ms(first.due), now_ms + step_ms)

    def _hand_over(self) -> int:
        before = self._came
        for messages, consumer in self.consumers.items():
            for batch in messages.batches(BATCH, wait=0):
                if not batch:
                    break
                consumer.take([due_ms(message.due) for message in batch])
                messages.ack(batch)
                self.recurred.note(batch, self._clock.now)
                self._came += len(batch)
        return self._came - before


def _sleep_until(moment_s: float) -> None:
    while (left_s := moment_s - time.monotonic()) > 0:
        time.sleep(min(left_s, SLEEP_MAX_S))
