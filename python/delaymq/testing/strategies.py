"""Hypothesis strategies for what a program publishes. Needs hypothesis: `pip install delaymq[testing]`."""

from __future__ import annotations

from datetime import timedelta

from delaymq.durations import Duration
from delaymq.message import Publish

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as missing:
    if missing.name != "hypothesis":
        raise
    raise ModuleNotFoundError(
        "delaymq.testing.strategies needs hypothesis: pip install 'delaymq[testing]'", name="hypothesis"
    ) from missing

__all__ = ["bodies", "delays", "publishes", "subjects"]

NAME_CHARACTERS_MAX = 100
DELAY_MAX = timedelta(days=3652)  # a little under what a store accepts when it is opened by default


def subjects() -> st.SearchStrategy[str]:
    """Names that are accepted for subjects, and for groups: 1 to 100 characters, also beyond ASCII."""
    letters = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z"), exclude_characters="/%")
    return st.text(letters, min_size=1, max_size=NAME_CHARACTERS_MAX)


def bodies(*, max_size: int = 1024) -> st.SearchStrategy[bytes]:
    """Bodies of at most `max_size` bytes, the empty one among them."""
    return st.binary(max_size=max_size)


def delays(max_delay: timedelta = DELAY_MAX) -> st.SearchStrategy[Duration]:
    """Delays of every form that is accepted, up to ten years: none, timedeltas, whole and broken seconds."""
    seconds = max_delay.total_seconds()
    return st.one_of(
        st.just(0),
        st.timedeltas(min_value=timedelta(0), max_value=max_delay),
        st.integers(min_value=0, max_value=int(seconds)),
        st.floats(min_value=0, max_value=seconds),
    )


def publishes(
    *,
    subject: st.SearchStrategy[str] | None = None,
    body: st.SearchStrategy[bytes] | None = None,
    delay: st.SearchStrategy[Duration] | None = None,
) -> st.SearchStrategy[Publish]:
    """Messages for `publish_many`; what is given replaces the strategy of that part."""
    return st.builds(
        Publish,
        subject=subjects() if subject is None else subject,
        body=bodies() if body is None else body,
        delay=delays() if delay is None else delay,
    )
