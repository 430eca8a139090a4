"""Hypothesis strategies for messages to publish. Needs hypothesis: `pip install delaymq[testing]`."""

from __future__ import annotations

import unicodedata
from datetime import timedelta
from functools import partial

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
DELAY_MAX = timedelta(days=3652)  # slightly below the default `delay_max` of a store


def subjects() -> st.SearchStrategy[str]:
    """Valid names of subjects and groups: 1 to 100 visible, assigned characters in NFC, also beyond ASCII."""
    letters = st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cn", "Cs", "Z"), exclude_characters="/%")
    texts = st.text(letters, min_size=1, max_size=NAME_CHARACTERS_MAX)
    # A few letters have more than one character in NFC.
    return texts.map(partial(unicodedata.normalize, "NFC")).filter(lambda name: len(name) <= NAME_CHARACTERS_MAX)


def bodies(*, max_size: int = 1024) -> st.SearchStrategy[bytes]:
    """Bodies of at most `max_size` bytes, including the empty one."""
    return st.binary(max_size=max_size)


def delays(max_delay: timedelta = DELAY_MAX) -> st.SearchStrategy[Duration]:
    """Delays of every valid type, up to ten years: zero, timedeltas, ints and floats."""
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
    """Messages for `publish_many`. An argument replaces the strategy of that field."""
    return st.builds(
        Publish,
        subject=subjects() if subject is None else subject,
        body=bodies() if body is None else body,
        delay=delays() if delay is None else delay,
    )
