"""The arguments of a subscription: its subjects, which are one, a list of them, or a prefix; and its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Required, TypeAlias, TypedDict

from delaymq._arguments.argument_errors import texts_of
from delaymq.durations import Duration, hold_ms
from delaymq.filters import AttributeConditions, Filters, Tags, filters_of
from delaymq.starts import CoreStart, Start, start_of

IN_FLIGHT_MAX = 256  # unacknowledged messages that one consumer may hold

Subjects: TypeAlias = str | Sequence[str]
"""A subject, a list of subjects, or a prefix that ends with `*`: each subject whose name begins with the rest."""


def shown_subjects(subjects: tuple[str, ...]) -> str:
    """The subjects as their subscription shows them."""
    return repr(subjects[0]) if len(subjects) == 1 else f"{subjects[0]!r} and {len(subjects) - 1} more"


def subjects_of(subject: Subjects) -> tuple[str, ...]:
    """The texts that the core takes, which checks them.

    Raises:
        WrongType: It is neither a str nor a list of str.
    """
    return (subject,) if isinstance(subject, str) else tuple(texts_of("subject", "str or a list of str", subject))


class SubscribeOptions(TypedDict, total=False):
    """The options of `subscribe`, which documents them."""

    group: Required[str]
    start: Start
    in_flight_max: int
    handle_within: Duration | None
    tags: Tags
    attributes: AttributeConditions | None


class Subscribed(NamedTuple):
    """The arguments of `subscribe`, as the core takes them."""

    subjects: tuple[str, ...]
    group: str
    start: CoreStart
    in_flight_max: int
    filters: Filters
    handle_within_ms: int | None


def subscribed(
    subject: Subjects,
    *,
    group: str,
    start: Start = "unfinished",
    in_flight_max: int = IN_FLIGHT_MAX,
    handle_within: Duration | None = None,
    tags: Tags = (),
    attributes: AttributeConditions | None = None,
) -> Subscribed:
    """Checks the arguments of `subscribe`.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.subscribe`.
    """
    subjects, filters = subjects_of(subject), filters_of(tags, attributes)
    return Subscribed(subjects, group, start_of(start), in_flight_max, filters, hold_ms(handle_within))
