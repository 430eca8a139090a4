"""Commands of both clients on messages by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from delaymq import _core
from delaymq._arguments.moves import key_moves_of, keys_of, moved, time_of
from delaymq._core import Request
from delaymq.client.commands.batches import KeyParts, renamed_due
from delaymq.client.commands.calls import AsyncClientPart, ClientPart
from delaymq.client.commands.publishing import RETRY_FOR_MS
from delaymq.durations import Duration
from delaymq.errors import InvalidArgument, NamesFull
from delaymq.keys import new_ids
from delaymq.pending import LookedUp, looked_up_key
from delaymq.receipt import Moved, Outcome


class ClientKeyCommands(ClientPart):
    """The methods of `Client` that address pending messages by their keys."""

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Store.cancel_key`.

        If the answer is lost, the client repeats the request, under a generated id if `command_id` is None, and gets
        the first answer. If the server has no room for another id and `command_id` is None, the request is sent without
        an id.

        Raises:
            WrongType, InvalidArgument, NamesFull: As `delaymq.Store.cancel_key`.
            AmbiguousError: The answer was lost: the message may or may not be cancelled. Either the repeated request
                had no answer in time, or the request had no id, since the server had no room for one, or the client has
                `retry_ambiguous=False`. `look_up_key` tells, and so does the same call with the same `command_id`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        outcomes: tuple[str, ...] = self._command(partial(_core.cancel_key_request, subject, key), command_id)
        return Outcome(outcomes[0])

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Store.cancel_keys`.

        Lost answers, and a server without room for ids, are handled as by `cancel_key`. More than 10,000 keys are
        cancelled in several requests, each of them atomic.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.Store.cancel_keys`.
            NamesFull: The server has no room for more ids, and `command_id` is given; earlier requests have taken
                effect.
            AmbiguousError: As `cancel_key`; the same call with the same `command_id` tells the outcome of each.
            StoreError: The server is of a release without this command.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        parts = KeyParts(keys_of(keys), partial(_core.cancel_keys_request, subject), command_id)
        words = [word for request_of in parts.requests() for word in self._command(request_of, command_id)]
        return [Outcome(word) for word in parts.merged(words)]

    def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Store.move_key`.

        Raises:
            WrongType, InvalidArgument, TooLarge, NamesFull: As `delaymq.Store.move_key`.
            AmbiguousError: As `cancel_key`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        due_ms, absolute = time_of(delay, at)
        try:
            return moved(self._command(partial(_core.move_key_request, subject, key, due_ms, absolute), command_id))[0]
        except InvalidArgument as error:
            raise renamed_due(error, absolute) from None

    def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages that are pending under these keys another due time, as `delaymq.Store.move_keys`.

        More than 10,000 keys are moved in several requests, each of them atomic.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.Store.move_keys`; if a time is too far ahead, earlier
                requests have taken effect.
            NamesFull, AmbiguousError, StoreError: As `cancel_keys`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        parts = KeyParts(key_moves_of(keys, delay, at), partial(_core.move_keys_request, subject), command_id)
        answers: list[Moved] = []
        for number, request_of in enumerate(parts.requests()):
            try:
                answers.extend(moved(self._command(request_of, command_id)))
            except InvalidArgument as error:
                error_of, (_, _, absolute) = parts.error_of(error, number)
                raise renamed_due(error_of, absolute) from None
        return parts.merged(answers)

    def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Store.look_up_key`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.look_up_key`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return looked_up_key(subject, self._call(_core.look_up_key_request(subject, key), reads=True))

    def _command(self, request_of: Callable[[str | None], Request], command_id: str | None) -> Any:  # noqa: ANN401
        """Sends a command with an id, or without one if the server has no room for ids and the user gave none."""
        try:
            return self._call(
                request_of(_id_or_new(command_id)), retry=self._options.retry_ambiguous, retry_for_ms=RETRY_FOR_MS
            )
        except NamesFull:
            if command_id is not None:
                raise
            return self._call(request_of(None))


class AsyncClientKeyCommands(AsyncClientPart):
    """The methods of `AsyncClient` that address pending messages by their keys.

    Each does what the method of `delaymq.Client` does. It raises the same errors, and WrongLoop.
    """

    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Client.cancel_key`."""
        outcomes: tuple[str, ...] = await self._command(partial(_core.cancel_key_request, subject, key), command_id)
        return Outcome(outcomes[0])

    async def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Client.cancel_keys`."""
        parts = KeyParts(keys_of(keys), partial(_core.cancel_keys_request, subject), command_id)
        words = [word for request_of in parts.requests() for word in await self._command(request_of, command_id)]
        return [Outcome(word) for word in parts.merged(words)]

    async def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Client.move_key`."""
        due_ms, absolute = time_of(delay, at)
        request_of = partial(_core.move_key_request, subject, key, due_ms, absolute)
        try:
            return moved(await self._command(request_of, command_id))[0]
        except InvalidArgument as error:
            raise renamed_due(error, absolute) from None

    async def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages that are pending under these keys another due time, as `delaymq.Client.move_keys`."""
        parts = KeyParts(key_moves_of(keys, delay, at), partial(_core.move_keys_request, subject), command_id)
        answers: list[Moved] = []
        for number, request_of in enumerate(parts.requests()):
            try:
                answers.extend(moved(await self._command(request_of, command_id)))
            except InvalidArgument as error:
                error_of, (_, _, absolute) = parts.error_of(error, number)
                raise renamed_due(error_of, absolute) from None
        return parts.merged(answers)

    async def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Client.look_up_key`."""
        return looked_up_key(subject, await self._call(_core.look_up_key_request(subject, key), reads=True))

    async def _command(self, request_of: Callable[[str | None], Request], command_id: str | None) -> Any:  # noqa: ANN401
        """Sends a command with an id, or without one if the server has no room for ids and the user gave none."""
        try:
            return await self._call(
                request_of(_id_or_new(command_id)), retry=self._options.retry_ambiguous, retry_for_ms=RETRY_FOR_MS
            )
        except NamesFull:
            if command_id is not None:
                raise
            return await self._call(request_of(None))


def _id_or_new(command_id: str | None) -> str:
    """The id of a command, a new one if the user gave none."""
    return new_ids(1)[0] if command_id is None else command_id
