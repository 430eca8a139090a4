"""Keys: names of your own for what is pending, one message of a subject each; and on which terms one is published."""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING, Literal, TypeAlias

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._arguments.moves import key_moves_of, keys_of, moved, time_of
from delaymq.receipt import Moved, Outcome, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from delaymq.durations import Duration

__all__ = ["IfExists", "KeyCommands", "Terms", "named", "terms_of"]

IfExists = Literal["replace", "keep", "error"]
"""What becomes of a message whose key a pending one has: it replaces that one, that one is kept, or it is refused."""

Terms: TypeAlias = tuple[str | None, int, bool]
"""What crosses into the core: a key, what is done where that is taken, and whether the message is told by its id."""

ID_BYTES = 16
CODES = {"replace": 0, "keep": 1, "error": 2}


def terms_of(key: str | None, if_exists: IfExists | None, deduplicate: bool) -> Terms | None:
    """On which terms a message is published; None where there are none.

    Raises:
        WrongType, InvalidArgument: As `Store.publish`.
    """
    if key is None and if_exists is None and deduplicate is False:
        return None
    anything: object = key
    if anything is not None and not isinstance(anything, str):
        raise wrong_type("key", "str", anything)
    if key is not None and not is_text(key):
        raise refused("key", "text that UTF-8 can hold", "a lone surrogate")
    choice: object = deduplicate
    if not isinstance(choice, bool):
        raise wrong_type("deduplicate", "bool", choice)
    word: object = if_exists
    if word is not None and not isinstance(word, str):
        raise wrong_type("if_exists", '"replace", "keep" or "error"', word)
    if word is not None and word not in CODES:
        raise refused("if_exists", '"replace", "keep" or "error"', word)
    if word is not None and key is None:
        raise refused("if_exists", "a key beside it", word)
    return key, CODES[if_exists or "error"], choice


def is_text(word: str) -> bool:
    """Whether UTF-8 can hold it."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def named(message_id: str | None, deduplicate: bool) -> str | None:
    """The id of a message, made where it has none and is told by it."""
    return uuid.uuid4().hex if deduplicate is True and message_id is None else message_id


def made(count: int) -> list[str]:
    """So many ids, from one look at chance."""
    chance = secrets.token_hex(ID_BYTES * count)
    return [chance[start : start + 2 * ID_BYTES] for start in range(0, len(chance), 2 * ID_BYTES)]


class KeyCommands:
    """The part of a store that speaks of messages by their keys; `Store` has these methods."""

    _core: _core.Store

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Takes back the message of a subject that is pending under a key. The answer is durable.

        Args:
            subject: Its subject.
            key: Its key.
            command_id: Up to 100 characters, as a key has them. The same call again, under the same id, is answered
                as the first time for ten minutes, whoever has the key by then. It takes the place of an id among
                those of `deduplicate`.

        Returns:
            `DONE`, or `NOT_FOUND` where nothing is pending under that key: there was never such a message, or
            it was cancelled, or it is dispatched. A receipt tells these apart, a key does not.

        Raises:
            WrongType, InvalidArgument: `subject`, `key` or `command_id` is refused; nothing was cancelled.
            NamesFull: No more ids are remembered; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return Outcome(_core.cancel_key(self._core, subject, key, command_id))

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Takes back the messages of a subject that are pending under these keys, with one wait for all.

        Args:
            subject: Their subject.
            keys: Their keys. One that is named twice is asked once, and has one answer.
            command_id: As `cancel_key` has it, for each key: what was answered under it before is answered so
                again, key by key. Each takes the place of an id.

        Returns:
            What was found of each, in their order, as `cancel_key` has it.

        Raises:
            WrongType, InvalidArgument: As `cancel_key`; `index` says which key, and nothing was cancelled.
            NamesFull: No more ids are remembered; nothing was cancelled. Of more keys than one batch takes, which are
                299,000 with segments of the usual size, those of the batches before are.
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
            subject: Its subject.
            key: Its key.
            delay: A timedelta or seconds from now, as `publish` takes it.
            at: An aware datetime instead; one that has passed is due now.
            command_id: As `cancel_key` has it; the first answer has the first new receipt.

        Returns:
            `DONE` and the new receipt, or `NOT_FOUND` as `cancel_key` has it. It is durable.

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

        One whose key another message takes meanwhile is asked again, with one more wait.

        Args:
            subject: Their subject.
            keys: Their keys. One that is named twice is asked once, and has one answer.
            delay: One for all, or a sequence with one for each key.
            at: The same, of aware datetimes.
            command_id: As `cancel_keys` has it.

        Returns:
            What was found of each, in their order, as `move_key` has it.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `move_key`, and where a key is named twice with two times; `index`
                says which, and nothing was moved.
            NamesFull: As `cancel_keys`.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        rows = key_moves_of(keys, delay, at)
        return moved(_core.move_keys(self._core, subject, rows, command_id))

    def look_up_key(self, subject: str, key: str) -> Receipt | None:
        """The receipt of the message that is pending under a key; None where nothing is. It reads nothing from disk.

        Raises:
            WrongType, InvalidArgument: `subject` or `key` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.look_up_key(self._core, subject, key)
