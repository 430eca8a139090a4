"""Messages of a server by their keys."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq._arguments.moves import key_moves_of, keys_of, moved, time_of
from delaymq.client.commands.batches import KeyParts
from delaymq.client.commands.publishing import AGAIN_FOR_S
from delaymq.errors import InvalidArgument, NamesFull
from delaymq.keys import made
from delaymq.receipt import Moved, Outcome, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from delaymq._core import Request
    from delaymq.client.session.options import ClientOptions
    from delaymq.durations import Duration

__all__ = ["AsyncClientKeyCommands", "ClientKeyCommands"]


class ClientKeyCommands:
    """The part of a client that speaks of messages by their keys; `Client` has these methods."""

    _chosen: ClientOptions

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Takes back the message that is pending under a key, as `delaymq.Store.cancel_key`.

        Where its answer is lost it is asked again by itself, under an id that the client makes where none is given, and
        answered as the first time. Where the server remembers no more ids, one without an id of yours is asked without.

        Raises:
            WrongType, InvalidArgument, NamesFull: As there.
            AmbiguousError: The answer was lost: it may be cancelled or not. Either none came in time when it was asked
                again, or it had no id, since no more are remembered, or the client has `retry_ambiguous=False`.
                `look_up_key` tells, and so does the same call again under the same `command_id`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        outcomes: tuple[str, ...] = self._told(partial(_core.cancel_key_request, subject, key), command_id)
        return Outcome(outcomes[0])

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Takes back the messages that are pending under these keys, as `delaymq.Store.cancel_keys`.

        What is lost and what has no room for an id is as `cancel_key` has it. More than 10,000 keys are cancelled in
        several requests, each whole.

        Raises:
            WrongType, InvalidArgument, TooLarge: As there.
            NamesFull: The server remembers no more ids, and one is given; what requests before have cancelled is.
            AmbiguousError: As `cancel_key`; a `command_id` tells what became of each.
            StoreError: The server is of a release that had no such command.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        asked = KeyParts(keys_of(keys), partial(_core.cancel_keys_request, subject), command_id)
        words = [word for request_of in asked.requests() for word in self._told(request_of, command_id)]
        return [Outcome(word) for word in asked.told(words)]

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
            WrongType, InvalidArgument, TooLarge, NamesFull: As there.
            AmbiguousError: As `cancel_key`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        due_ms, absolute = time_of(delay, at)
        try:
            return moved(self._told(partial(_core.move_key_request, subject, key, due_ms, absolute), command_id))[0]
        except InvalidArgument as error:
            raise _as_given(error, absolute) from None

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

        More than 10,000 keys are moved in several requests, each whole.

        Raises:
            WrongType, InvalidArgument, TooLarge: As there; where a time is too far ahead, what requests before have
                moved is.
            NamesFull, AmbiguousError, StoreError: As `cancel_keys`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        asked = KeyParts(key_moves_of(keys, delay, at), partial(_core.move_keys_request, subject), command_id)
        answers: list[Moved] = []
        for number, request_of in enumerate(asked.requests()):
            try:
                answers.extend(moved(self._told(request_of, command_id)))
            except InvalidArgument as error:
                refused, (_, _, absolute) = asked.refused(error, number)
                raise _as_given(refused, absolute) from None
        return asked.told(answers)

    def look_up_key(self, subject: str, key: str) -> Receipt | None:
        """The receipt of the message that is pending under a key, as `delaymq.Store.look_up_key`.

        Raises:
            WrongType, InvalidArgument: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return next(iter(self._call(_core.look_up_key_request(subject, key), reads=True)), None)

    def _told(self, request_of: Callable[[str | None], Request], command_id: str | None) -> Any:  # noqa: ANN401
        """Asks under an id, which the server knows again; without one where it remembers no more and none was given."""
        try:
            return self._call(
                request_of(_named(command_id)), again=self._chosen.retry_ambiguous, again_for_s=AGAIN_FOR_S
            )
        except NamesFull:
            if command_id is not None:
                raise
            return self._call(request_of(None))

    def _call(
        self, request: Request, *, reads: bool = False, again: bool = False, again_for_s: float = math.inf
    ) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError


class AsyncClientKeyCommands:
    """The part of a client that speaks of messages by their keys; `AsyncClient` has these methods.

    Each does what its twin of `delaymq.Client` does; errors are the same, and WrongLoop.
    """

    _chosen: ClientOptions

    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Takes back the message that is pending under a key, as `delaymq.Client.cancel_key`."""
        outcomes: tuple[str, ...] = await self._told(partial(_core.cancel_key_request, subject, key), command_id)
        return Outcome(outcomes[0])

    async def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Takes back the messages that are pending under these keys, as `delaymq.Client.cancel_keys`."""
        asked = KeyParts(keys_of(keys), partial(_core.cancel_keys_request, subject), command_id)
        words = [word for request_of in asked.requests() for word in await self._told(request_of, command_id)]
        return [Outcome(word) for word in asked.told(words)]

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
            return moved(await self._told(request_of, command_id))[0]
        except InvalidArgument as error:
            raise _as_given(error, absolute) from None

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
        asked = KeyParts(key_moves_of(keys, delay, at), partial(_core.move_keys_request, subject), command_id)
        answers: list[Moved] = []
        for number, request_of in enumerate(asked.requests()):
            try:
                answers.extend(moved(await self._told(request_of, command_id)))
            except InvalidArgument as error:
                refused, (_, _, absolute) = asked.refused(error, number)
                raise _as_given(refused, absolute) from None
        return asked.told(answers)

    async def look_up_key(self, subject: str, key: str) -> Receipt | None:
        """The receipt of the message that is pending under a key, as `delaymq.Client.look_up_key`."""
        return next(iter(await self._call(_core.look_up_key_request(subject, key), reads=True)), None)

    async def _told(self, request_of: Callable[[str | None], Request], command_id: str | None) -> Any:  # noqa: ANN401
        """Asks under an id, which the server knows again; without one where it remembers no more and none was given."""
        try:
            return await self._call(
                request_of(_named(command_id)), again=self._chosen.retry_ambiguous, again_for_s=AGAIN_FOR_S
            )
        except NamesFull:
            if command_id is not None:
                raise
            return await self._call(request_of(None))

    async def _call(
        self, request: Request, *, reads: bool = False, again: bool = False, again_for_s: float = math.inf
    ) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError


def _named(command_id: str | None) -> str:
    """The id of a command, made where it has none."""
    return made(1)[0] if command_id is None else command_id


def _as_given(error: InvalidArgument, absolute: bool) -> InvalidArgument:
    """The error as a store in this process would raise it, which knows what the time is called."""
    if error.argument != "due":
        return error
    argument = "at" if absolute else "delay"
    words = f"{argument}: expected {error.expected}, found {error.found}"
    return type(error)(words, **{**vars(error), "argument": argument})
