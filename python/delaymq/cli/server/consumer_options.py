"""The settings of QMQ's clients, as options of a server."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Literal, TypeAlias

from delaymq._arguments.server_options import ConsumerOptions
from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import Settings

HOUR_SECONDS = 3_600
DAY_SECONDS = 24 * HOUR_SECONDS
SECONDS_MAX = 30 * DAY_SECONDS
HOURS_MAX = 365 * 24
COUNT_MAX = 2**31 - 1


def consuming_of(settings: Settings) -> ConsumerOptions:
    """Returns the options that are configured.

    Raises:
        UsageError: A lease is zero, or a value is out of range.
    """
    choices: ConsumerOptions = {}
    for name, choice, read in READ_AS:
        if name in settings:
            choices[choice] = read(settings, name)
    return choices


def _lease_ms(settings: Settings, name: str) -> int:
    seconds = settings[name]
    if not 0 < seconds <= SECONDS_MAX:
        raise UsageError(f"{name}: expected more than 0 and at most {SECONDS_MAX} seconds, found {seconds}")
    return max(1, int(seconds * 1000))


def _broadcast_lease_ms(settings: Settings, name: str) -> int:
    hours = settings[name]
    if not 0 < hours <= HOURS_MAX:
        raise UsageError(f"{name}: expected more than 0 and at most {HOURS_MAX} hours, found {hours}")
    return max(1, int(hours * HOUR_SECONDS * 1000))


def _milliseconds(settings: Settings, name: str) -> int:
    seconds = settings[name]
    if seconds > SECONDS_MAX:
        raise UsageError(f"{name}: expected at most {SECONDS_MAX} seconds, found {seconds}")
    longest = settings.get("store.delay_days_max", inf) * DAY_SECONDS
    if seconds > longest:
        raise UsageError(f"{name}: expected at most {longest:g} seconds, by store.delay_days_max, found {seconds}")
    return int(seconds * 1000)


def _count(settings: Settings, name: str) -> int:
    count = settings[name]
    if count > COUNT_MAX:
        raise UsageError(f"{name}: expected at most {COUNT_MAX}, found {count}")
    return int(count)


Choice: TypeAlias = Literal[
    "lease_ms",
    "broadcast_lease_ms",
    "retry_delay_ms",
    "undelayed_ms",
    "attempts_max",
    "held_pulls_max",
    "consumers_max",
    "groups_max",
    "subjects_max",
]

READ_AS: tuple[tuple[str, Choice, Callable[[Settings, str], int]], ...] = (
    ("server.qmq_lease_seconds", "lease_ms", _lease_ms),
    ("server.qmq_broadcast_lease_hours", "broadcast_lease_ms", _broadcast_lease_ms),
    ("server.qmq_retry_seconds", "retry_delay_ms", _milliseconds),
    ("server.qmq_undelayed_seconds", "undelayed_ms", _milliseconds),
    ("server.qmq_attempts_max", "attempts_max", _count),
    ("server.qmq_held_pulls_max", "held_pulls_max", _count),
    ("server.qmq_consumers_max", "consumers_max", _count),
    ("server.qmq_groups_max", "groups_max", _count),
    ("server.qmq_subjects_max", "subjects_max", _count),
)
"""For each setting, the option that it sets and how it is read."""
