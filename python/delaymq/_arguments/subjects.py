"""The subjects of a subscription: one, a list of them, or a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from delaymq._arguments.argument_errors import texts_of

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
