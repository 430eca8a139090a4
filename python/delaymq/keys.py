"""Keys: names that users give to pending messages, at most one message of a subject for each key.

Also the conditions of a publish: its key, what happens if the key is taken, and deduplication by message id.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._arguments.moves import key_moves_of, keys_of, moved, time_of
from delaymq._store.parts import StorePart
from delaymq.durations import Duration, Expires, OnExpiry, expiry_of
from delaymq.pending import LookedUp, looked_up_key
from delaymq.receipt import Moved, Outcome

__all__ = ["IfExists", "KeyCommands", "Terms", "id_for", "terms_of"]

IfExists = Literal["replace", "keep", "error"]
"""The effect of a taken key: the new message replaces the pending one, it is kept, or the new one is refused."""

Terms: TypeAlias = tuple[str | None, int, bool, tuple[int, bool, bool] | None]
"""The conditions of a publish as the core takes them: key or None, code of `if_exists`, whether to deduplicate, and the
expiry, as `expiry_of` returns it."""

ID_BYTES = 16
CODES = {"replace": 0, "keep": 1, "error": 2}


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
    if word is not None and word not in CODES:
        raise refused("if_exists", '"replace", "keep" or "error"', word)
    if word is not None and not has_key:
        raise refused("if_exists", "a key beside it", word)
    return CODES[if_exists or "error"]


def is_text(word: str) -> bool:
    """True if UTF-8 can encode it."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def id_for(message_id: str | None, deduplicate: bool) -> str | None:
    """The id of a message; a new one if it has none and is deduplicated."""
    return new_ids(1)[0] if deduplicate is True and message_id is None else message_id


def new_ids(count: int) -> list[str]:
    """Random ids, from one read of the system's random source."""
    random_hex = os.urandom(ID_BYTES * count).hex()
    return [random_hex[start : start + 2 * ID_BYTES] for start in range(0, len(random_hex), 2 * ID_BYTES)]


class KeyCommands(StorePart):
    """The methods of `Store` that address pending messages by their keys."""

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message of a subject that is pending under a key. The answer is durable.

        Args:
            subject: Subject of the message.
            key: Key of the message.
            command_id: Makes the call safe to repeat: for ten minutes the same call with the same id has the first
                answer, whichever message has the key by then. Up to 100 characters, as in a key. It counts among the
                ids of `deduplicate`.

        Returns:
            `DONE`. If no message is pending under the key, `ALREADY_DISPATCHED` for ten minutes after the last one
            became ready, and otherwise `NOT_FOUND`: there was none, it was cancelled, or it is dispatched and
            forgotten.

        Raises:
            WrongType, InvalidArgument: `subject`, `key` or `command_id` is refused; nothing was cancelled.
            NamesFull: There is no room for another id; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return Outcome(_core.cancel_key(self._core, subject, key, command_id))

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages of a subject that are pending under these keys, with one wait for all.

        Args:
            subject: Subject of the messages.
            keys: Their keys. A repeated key is cancelled once; all its places have the same answer.
            command_id: As for `cancel_key`, for each key separately. Each key takes one id.

        Returns:
            The outcome of each key, in the order of `keys`, as `cancel_key` has it.

        Raises:
            WrongType, InvalidArgument: As `cancel_key`; `index` is the refused key, and nothing was cancelled.
            NamesFull: There is no room for more ids; nothing was cancelled. If there are more keys than one batch takes
                (299,000 with segments of the default size), the earlier batches were cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [Outcome(word) for word in _core.cancel_keys(self._core, subject, keys_of(keys), command_id)]

    def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time. It keeps its key and has a new receipt.

        Args:
            subject: Subject of the message.
            key: Key of the message.
            delay: A timedelta or seconds from now, as for `publish`.
            at: An aware datetime instead; a past time means now.
            command_id: As for `cancel_key`; the repeated answer has the receipt of the first one.

        Returns:
            `DONE` and the new receipt, or `ALREADY_DISPATCHED` or `NOT_FOUND` as `cancel_key` has them. The answer is
            durable.

        Raises:
            WrongType, InvalidArgument, TooLarge: An argument is refused, as by `move`; nothing was moved.
            NamesFull: As `cancel_key`.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        due_ms, absolute = time_of(delay, at)
        return moved(_core.move_key(self._core, subject, key, due_ms, absolute, command_id))[0]

    def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages of a subject that are pending under these keys another due time, with one wait for all.

        If another message takes a key meanwhile, that key is tried again, with one more wait.

        Args:
            subject: Subject of the messages.
            keys: Their keys. A repeated key is moved once; all its places have the same answer.
            delay: One delay for all, or a sequence with one for each key.
            at: One aware datetime for all, or a sequence with one for each key.
            command_id: As for `cancel_keys`.

        Returns:
            The result of each key, in the order of `keys`, as `move_key` has it.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `move_key`, or a key is repeated with another time; `index` is the
                refused key, and nothing was moved.
            NamesFull: As `cancel_keys`.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        rows = key_moves_of(keys, delay, at)
        return moved(_core.move_keys(self._core, subject, rows, command_id))

    def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, without reading from disk.

        Returns:
            `PENDING` and the receipt of the message that is pending under the key. Without one, `DISPATCHED` and the
            receipt for ten minutes after the last one became ready, and otherwise `NOT_FOUND` without a receipt.

        Raises:
            WrongType, InvalidArgument: `subject` or `key` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return looked_up_key(subject, _core.look_up_key(self._core, subject, key))
