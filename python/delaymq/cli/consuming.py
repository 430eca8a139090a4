"""What is configured of QMQ's clients, as a server takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delaymq.cli.failures import UsageError

if TYPE_CHECKING:
    from delaymq._server_choices import ConsumingChoices
    from delaymq.cli.settings import Settings

__all__ = ["consuming_of"]

SECONDS_MAX = 30 * 86_400
COUNT_MAX = 2**31 - 1


def consuming_of(settings: Settings) -> ConsumingChoices:
    """What is given of it.

    Raises:
        UsageError: For a lease of nothing, and for what is beyond all bounds.
    """
    choices: ConsumingChoices = {}
    if "server.qmq_lease_seconds" in settings:
        choices["lease_ms"] = max(_milliseconds(settings, "server.qmq_lease_seconds"), 1)
    if "server.qmq_retry_seconds" in settings:
        choices["retry_delay_ms"] = _milliseconds(settings, "server.qmq_retry_seconds")
    if "server.qmq_undelayed_seconds" in settings:
        choices["undelayed_ms"] = _milliseconds(settings, "server.qmq_undelayed_seconds")
    if "server.qmq_attempts_max" in settings:
        choices["attempts_max"] = _count(settings, "server.qmq_attempts_max")
    if "server.qmq_held_pulls_max" in settings:
        choices["held_pulls_max"] = _count(settings, "server.qmq_held_pulls_max")
    if "server.qmq_consumers_max" in settings:
        choices["consumers_max"] = _count(settings, "server.qmq_consumers_max")
    if "server.qmq_groups_max" in settings:
        choices["groups_max"] = _count(settings, "server.qmq_groups_max")
    if "server.qmq_subjects_max" in settings:
        choices["subjects_max"] = _count(settings, "server.qmq_subjects_max")
    return choices


def _milliseconds(settings: Settings, name: str) -> int:
    seconds = settings[name]
    if seconds > SECONDS_MAX or (name == "server.qmq_lease_seconds" and seconds == 0):
        raise UsageError(f"{name}: expected more than 0 and at most {SECONDS_MAX} seconds, found {seconds}")
    return int(seconds * 1000)


def _count(settings: Settings, name: str) -> int:
    count = settings[name]
    if count > COUNT_MAX:
        raise UsageError(f"{name}: expected at most {COUNT_MAX}, found {count}")
    return int(count)
