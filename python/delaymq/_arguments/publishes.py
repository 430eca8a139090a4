"""Options of publishes, as the core takes them, if it does not read them itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from delaymq._arguments.argument_errors import is_text, refused, unexpected, wrong_type
from delaymq._arguments.columns import Moments, moments_of
from delaymq.durations import (
    Duration,
    Expires,
    OnExpiry,
    delay_ms,
    due_of,
    expiry_of,
    jitter_ms,
    jittered,
    random_integers,
)
from delaymq.errors import InvalidArgument, WrongType
from delaymq.message import IF_EXISTS, IfExists, Publish, meta_of

if TYPE_CHECKING:
    from delaymq._core import Columns, Meta

ID_BYTES = 16

Terms: TypeAlias = tuple[str | None, int, bool, tuple[int, bool, bool] | None]
"""The conditions of a publish as the core takes them: key or None, code of `if_exists`, whether to deduplicate, and the
expiry, as `expiry_of` returns it."""

Body: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = "tuple[str, Body, int, bool, Meta | None, Terms | None]"


def columns_of(
    subjects: object,
    bodies: Sequence[Body],
    delays: Duration | Sequence[Duration],
    options: tuple[Moments | None, Sequence[str | None] | None, IfExists | None, Duration | None],
    *,
    with_ids: bool,
) -> Columns:
    """The columns as the core takes them, from `at`, `keys`, `if_exists` and `jitter`.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    at, keys, if_exists, jitter = options
    if isinstance(subjects, bytes) or not _is_sequence(subjects):
        raise wrong_type("subject", "str, or a sequence of str", subjects)
    code, most = code_of(if_exists, keys is not None), jitter_ms(jitter)
    moments = moments_of(at)
    anything: object = delays
    if moments is not None and not (isinstance(anything, int) and anything == 0):
        raise unexpected("at", "no delays with it", "delays")
    if isinstance(delays, int | float | timedelta):
        delays = delay_ms(delays, "delays")
    count = len(bodies) if _is_sequence(bodies) else 0
    return (
        cast("str | Sequence[str]", subjects),
        bodies,
        delays,
        moments,
        keys,
        code,
        random_integers(most, count) if most else None,
        new_ids(count) if with_ids else None,
    )


def _is_sequence(value: object) -> bool:
    """True if the core accepts it as a sequence: it has a length and can be iterated."""
    try:
        len(value)  # type: ignore[arg-type]
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def row_of(index: int | None, message: Publish, with_id: bool) -> Row:
    """One message of a batch, or a single one without an index, as the core takes it.

    With `with_id`, it is deduplicated.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    anything: object = message
    if not isinstance(anything, Publish):
        error = wrong_type(f"messages[{index}]", "Publish", anything)
        error.argument, error.index = "messages", index
        raise error
    try:
        due, absolute = due_of(message.delay, message.at, message.level)
        due = jittered(due, message.jitter)
        deduplicate = with_id or message.deduplicate
        terms = terms_of(message.key, message.if_exists, deduplicate, message.expires, message.on_expiry)
    except (WrongType, InvalidArgument) as error:
        error.index = index
        raise
    meta = meta_of(id_for(message.message_id, deduplicate), message.tags, message.attributes)
    return message.subject, message.body, due, absolute, meta, terms


def terms_of(
    key: str | None,
    if_exists: IfExists | None,
    deduplicate: bool,
    expires: Expires | None = None,
    on_expiry: OnExpiry | None = None,
) -> Terms | None:
    """Checks the conditions of a publish; None if there are none.

    Raises:
        WrongType, InvalidArgument: As `Store.publish`.
    """
    expiry = expiry_of(expires, on_expiry)
    if key is None and if_exists is None and deduplicate is False and expiry is None:
        return None
    anything: object = key
    if anything is not None and not isinstance(anything, str):
        raise wrong_type("key", "str", anything)
    if key is not None and not is_text(key):
        raise refused("key", "text that UTF-8 can hold", "a lone surrogate")
    choice: object = deduplicate
    if not isinstance(choice, bool):
        raise wrong_type("deduplicate", "bool", choice)
    return key, code_of(if_exists, key is not None), choice, expiry


def code_of(if_exists: IfExists | None, has_key: bool) -> int:
    """The core's number of `if_exists`, which needs a key.

    Raises:
        WrongType, InvalidArgument: As `Store.publish`.
    """
    word: object = if_exists
    if word is not None and not isinstance(word, str):
        raise wrong_type("if_exists", '"replace", "keep" or "error"', word)
    if word is not None and word not in IF_EXISTS:
        raise refused("if_exists", '"replace", "keep" or "error"', word)
    if word is not None and not has_key:
        raise refused("if_exists", "a key beside it", word)
    return IF_EXISTS.index(if_exists or "error")


def id_for(message_id: str | None, deduplicate: bool) -> str | None:
    """The id of a message; a new one if it has none and is deduplicated."""
    return new_ids(1)[0] if deduplicate is True and message_id is None else message_id


def new_ids(count: int) -> list[str]:
    """Random ids, from one read of the system's random source."""
    random_hex = os.urandom(ID_BYTES * count).hex()
    return [random_hex[start : start + 2 * ID_BYTES] for start in range(0, len(random_hex), 2 * ID_BYTES)]
