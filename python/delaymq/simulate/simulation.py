"""Advances the clock of a copy as fast as possible, and delivers due messages to modelled consumers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from delaymq._arguments.argument_errors import checked_int, refused, wrong_type
from delaymq.durations import Duration, delay_ms, due_ms, moment
from delaymq.simulate.consumers import ConsumerModel, Predicted
from delaymq.simulate.recurrence_limit import RECURRING_MAX, RecurrenceLimit
from delaymq.simulate.store_copy import copy_of
from delaymq.store import Store
from delaymq.subscription import Subscription
from delaymq.testing.clock import Clock

GROUP = "simulate"
"""The group that consumes a subject without groups."""
STEP = timedelta(seconds=1)
BATCH = 1024
WHOLE = "a whole number"
IN_FLIGHT_MAX = 65_535
SLEEP_MAX_S = 3600.0
"""The longest single sleep: with a small `speed`, a wait may exceed what the system accepts."""

OnProgress = Callable[[datetime, int], None]


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
    progress: OnProgress | None = None,
) -> list[Predicted]:
    """Runs the pending messages of a copy of a store ahead of time, and predicts how late each group will be.

    The store may be open: the copy is then as of one moment, and no lock slows the process that has the store open. The
    copy is a real store on a clock that is advanced, so messages are moved, dispatched and redelivered as in the
    original. No new messages are published, except those of series. A group takes `rate` messages a second, one after
    the other.

    Args:
        path: The store's folder, open or not. Nothing in it is changed. A closed store cannot be opened while it is
            copied; an open one has a pin meanwhile, so that no file is removed.
        until: When to stop, an aware datetime after `start`.
        rate: Messages a second that each group handles, above zero.
        rates: Rates of single subjects by name, instead of `rate`.
        start: When to begin, an aware datetime that the store has not reached yet; by default now, after the copy is
            made. Messages that were due before are ready then.
        speed: The maximum speed, as a multiple of real time, above zero; None is as fast as possible. Times at which
            no message is due are skipped.
        step: The step of the clock, at least a millisecond. Lateness is exact for any step.
        folder: Where the copy is made. On the file system of the store, its runs take no additional space.
        recurring_max: The maximum of messages of series that groups may be delivered: a series has no end, and
            one message a second requires a step for each second.
        progress: Called after each step with the time and the number of messages so far.

    Returns:
        A row for each subject and group that had messages, the latest first.

    Raises:
        WrongType, InvalidArgument: An argument is refused.
        TooLarge: Series exceed `recurring_max` messages by `until`; raised at once if intervals alone do.
        Locked: A process has the store open, and its folder is not writable for a pin.
        NotAStore, Corrupt, NewerFormat, StorageError: As `delaymq.open`.
    """
    begins_ms = due_ms(start, "start") if start is not None else due_ms(datetime.now(UTC))
    ends_ms = due_ms(until, "until")
    if ends_ms <= begins_ms:
        raise refused("until", f"a time after {moment(begins_ms).isoformat()}", until.isoformat())
    if (step_ms := delay_ms(step, "step")) < 1:
        raise refused("step", "a millisecond or more", step)
    limits = {subject: _positive(f"rates[{subject!r}]", one) for subject, one in (rates or {}).items()}
    default_rate = _positive("rate", rate)
    pace = None if speed is None else _positive("speed", speed)
    most = checked_int("recurring_max", recurring_max, 0, None, kind=WHOLE, expected=f"{WHOLE}, zero or more")
    with copy_of(Path(path), None if folder is None else Path(folder)) as copy:
        begins_ms = begins_ms if start is not None else min(due_ms(datetime.now(UTC)), ends_ms)  # after copying
        clock = Clock(moment(begins_ms))
        with _opened(copy, clock) as store, ExitStack() as consuming:
            groups = _groups(store)
            _refuse_unknown(limits, store, groups)
            run = _Run(store, clock, RecurrenceLimit(store.recurring(), groups, most))
            run.limit.check_intervals(begins_ms, ends_ms)
            for subject, group in groups:
                messages = consuming.enter_context(store.subscribe(subject, group=group, in_flight_max=IN_FLIGHT_MAX))
                run.consumers[messages] = ConsumerModel(subject, group, limits.get(subject, default_rate), begins_ms)
            run.until(begins_ms, ends_ms, step_ms, pace, progress)
            found = [consumer.predicted(ends_ms) for consumer in run.consumers.values()]
    return sorted((one for one in found if one.messages), key=lambda one: (-one.late_max, one.subject, one.group))


def _opened(copy: Path, clock: Clock) -> Store:
    """Opens the copy without retention, so that the messages of series take little space."""
    return Store.open(copy, durability="os", clock=clock, create=False, keep_finished=0)


def _positive(argument: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(argument, "a number", value)
    if not (value > 0 and math.isfinite(value)):
        raise refused(argument, "a number above zero", value)
    return float(value)


def _refuse_unknown(limits: Mapping[str, float], store: Store, groups: Sequence[tuple[str, str]]) -> None:
    known = {subject for subject, _ in groups}.union(one.name for one in store.subjects())
    for subject in sorted(limits.keys() - known):
        raise refused(f"rates[{subject!r}]", "a subject of the store", subject)


def _groups(store: Store) -> list[tuple[str, str]]:
    """Each subject with pending or ready messages, with each of its groups."""
    groups: dict[str, list[str]] = {}
    for group in store.groups():
        groups.setdefault(group.subject, []).append(group.name)
    pending = store.pending_counts()
    named = [(subject, name) for subject, names in groups.items() for name in names]
    return named + [(subject, GROUP) for subject in pending if subject not in groups]


class _Run:
    """A store whose clock is advanced."""

    def __init__(self, store: Store, clock: Clock, limit: RecurrenceLimit) -> None:
        self.consumers: dict[Subscription, ConsumerModel] = {}
        self.limit = limit
        self._store, self._clock = store, clock
        self._delivered = 0

    def until(
        self, begins_ms: int, ends_ms: int, step_ms: int, speed: float | None, progress: OnProgress | None
    ) -> None:
        """Advances the clock step by step, and skips times at which no message is due."""
        started, now_ms = time.monotonic(), begins_ms
        while True:
            delivered = self._hand_over()
            if progress is not None:
                progress(moment(now_ms), self._delivered)
            if now_ms >= ends_ms:
                return
            next_ms = now_ms + step_ms if delivered else self._next_due(now_ms, step_ms, ends_ms)
            now_ms = min(next_ms, ends_ms)
            if speed is not None:
                _sleep_until(started + (now_ms - begins_ms) / 1000 / speed)
            self._clock.advance_to(moment(now_ms))

    def _next_due(self, now_ms: int, step_ms: int, ends_ms: int) -> int:
        first = next(iter(self._store.pending(prefix="")), None)
        return ends_ms if first is None else max(due_ms(first.due), now_ms + step_ms)

    def _hand_over(self) -> int:
        before = self._delivered
        for messages, consumer in self.consumers.items():
            for batch in messages.batches(BATCH, wait=0):
                if not batch:
                    break
                consumer.take([due_ms(message.due) for message in batch])
                messages.ack(batch)
                self.limit.count(batch, self._clock.now)
                self._delivered += len(batch)
        return self._delivered - before


def _sleep_until(moment_s: float) -> None:
    while (left_s := moment_s - time.monotonic()) > 0:
        time.sleep(min(left_s, SLEEP_MAX_S))
