"""Verbs for messages by their keys: cancelled, moved, looked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._arguments.batches import listed
from delaymq._verbs.calls import BY_KEY, BY_KEYS, READS, AsyncPart, Call, Part
from delaymq._verbs.receipt_commands import moved, time_of, times_of
from delaymq.durations import Duration
from delaymq.pending import Fate, LookedUp
from delaymq.receipt import Moved, Outcome, Receipt

KeyRow: TypeAlias = tuple[str, int, bool]
"""A key, milliseconds, and True if they are since 1970 rather than from now."""


def cancel_key(subject: str, key: str, command_id: str | None) -> Call[Outcome]:
    """`cancel_key`."""
    return Call("cancel_key", (subject, key, command_id), lambda words: Outcome(words[0]), BY_KEY)


def cancel_keys(subject: str, keys: Iterable[str], command_id: str | None) -> Call[list[Outcome]]:
    """`cancel_keys`."""
    arguments = (subject, keys_of(keys), command_id)
    return Call("cancel_keys", arguments, lambda words: [Outcome(word) for word in words], BY_KEYS)


def move_key(
    subject: str, key: str, delay: Duration | None, at: datetime | None, command_id: str | None
) -> Call[Moved]:
    """`move_key`."""
    arguments = (subject, key, *time_of(delay, at), command_id)
    return Call("move_key", arguments, lambda answers: moved(answers)[0], BY_KEY)


def move_keys(
    subject: str,
    keys: Iterable[str],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
    command_id: str | None,
) -> Call[list[Moved]]:
    """`move_keys`."""
    return Call("move_keys", (subject, key_moves_of(keys, delay, at), command_id), moved, BY_KEYS)


def look_up_key(subject: str, key: str) -> Call[LookedUp]:
    """`look_up_key`."""

    def looked_up(answer: tuple[str, Receipt | None]) -> LookedUp:
        fate, receipt = answer
        return LookedUp(Fate(fate), "" if receipt is None else subject, receipt)

    return Call("look_up_key", (subject, key), looked_up, READS)


class KeyCommands(Part):
    """The methods for messages by their keys."""

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message of a subject that is pending under a key. The answer is durable.

        If an answer is lost, a client repeats the request, under a generated id if `command_id` is None, and gets the
        first answer. If the server has no room for another id and `command_id` is None, the request is sent without an
        id.

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
            AmbiguousError: An answer to a client was lost: the message may or may not be cancelled. Either the repeated
                request had no answer in time, or the request had no id, since the server had no room for one, or the
                client has `retry_ambiguous=False`. `look_up_key` tells, and so does the same call with the same
                `command_id`.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(cancel_key(subject, key, command_id))

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages of a subject that are pending under these keys, with one wait for all.

        A client sends requests of at most 10,000 keys, each of them atomic. Lost answers, and a server without room
        for ids, are handled as by `cancel_key`.

        Args:
            subject: Subject of the messages.
            keys: Their keys. A repeated key is cancelled once; all its places have the same answer.
            command_id: As for `cancel_key`, for each key separately. Each key takes one id.

        Returns:
            The outcome of each key, in the order of `keys`, as `cancel_key` has it.

        Raises:
            WrongType, InvalidArgument: As `cancel_key`; `index` is the refused key, and nothing was cancelled.
            NamesFull: There is no room for more ids; nothing was cancelled. If there are more keys than one batch takes
                (299,000 with segments of the default size), or than one request of a client, the earlier ones were
                cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
            TooLarge: The keys do not fit into a request of a client.
            AmbiguousError: As `cancel_key`; the same call with the same `command_id` tells the outcome of each.
            StoreError: The server of a client is of a release without this command.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(cancel_keys(subject, keys, command_id))

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
            AmbiguousError: As `cancel_key`.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(move_key(subject, key, delay, at, command_id))

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

        If another message takes a key meanwhile, that key is tried again, with one more wait. A client sends requests
        of at most 10,000 keys, each of them atomic; if a time is too far ahead, the earlier ones have taken effect.

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
            AmbiguousError, StoreError: As `cancel_keys`.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(move_keys(subject, keys, delay, at, command_id))

    def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, without reading from disk.

        Returns:
            `PENDING` and the receipt of the message that is pending under the key. Without one, `DISPATCHED` and the
            receipt for ten minutes after the last one became ready, and otherwise `NOT_FOUND` without a receipt.

        Raises:
            WrongType, InvalidArgument: `subject` or `key` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(look_up_key(subject, key))


class AsyncKeyCommands(AsyncPart):
    """As `KeyCommands`, for coroutines. Each method raises the errors of the plain one, and WrongLoop."""

    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Store.cancel_key`."""
        return await self._run(cancel_key(subject, key, command_id))

    async def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Store.cancel_keys`."""
        return await self._run(cancel_keys(subject, keys, command_id))

    async def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Store.move_key`."""
        return await self._run(move_key(subject, key, delay, at, command_id))

    async def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages that are pending under these keys another due time, as `delaymq.Store.move_keys`."""
        return await self._run(move_keys(subject, keys, delay, at, command_id))

    async def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Store.look_up_key`."""
        return await self._run(look_up_key(subject, key))


def keys_of(keys: Iterable[str]) -> list[str]:
    """The keys of a call for many keys.

    Raises:
        WrongType: As `Store.cancel_keys`.
    """
    items = listed(keys, "keys", "an iterable of str")
    for index, key in enumerate(items):
        anything: object = key
        if not isinstance(anything, str):
            error = wrong_type("key", "str", anything)
            error.index = index
            raise error
    return items


def key_moves_of(
    keys: Iterable[str],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
) -> list[KeyRow]:
    """The rows that move the messages with these keys.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move_keys`.
    """
    items = keys_of(keys)
    known: dict[str, int] = {}
    rows = []
    for index, (key, time) in enumerate(zip(items, times_of(delay, at, len(items), "key"), strict=True)):
        if known.setdefault(key, time) != time:
            error = refused("key", "no key twice with two times", key)
            error.index = index
            raise error
        rows.append((key, time, at is not None))
    return rows
