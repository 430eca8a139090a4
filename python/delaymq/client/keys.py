"""Messages of a server by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delaymq._core import Request
from delaymq._moving import moved, time_of
from delaymq.errors import InvalidArgument
from delaymq.receipt import Moved, Outcome, Receipt

if TYPE_CHECKING:
    from datetime import datetime

    from delaymq.durations import Duration

__all__ = ["AsyncClientKeyed", "ClientKeyed"]


class ClientKeyed:
    """The part of a client that speaks of messages by their keys; `Client` has these methods."""

    def cancel_key(self, subject: str, key: str) -> Outcome:
        """Takes back the message that is pending under a key, as `delaymq.Store.cancel_key`.

        Raises:
            WrongType, InvalidArgument: As there.
            AmbiguousError: The answer was lost: it may be cancelled or not. It is not asked again by itself, since
                another message may have the key by then; `look_up_key` tells.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        outcomes: tuple[str, ...] = self._call(Request.cancel_key(subject, key))
        return Outcome(outcomes[0])

    def move_key(self, subject: str, key: str, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Store.move_key`.

        Raises:
            WrongType, InvalidArgument, TooLarge: As there.
            AmbiguousError: As `cancel_key`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        due_ms, absolute = time_of(delay, at)
        try:
            return moved(self._call(Request.move_key(subject, key, due_ms, absolute)))[0]
        except InvalidArgument as error:
            raise _named(error, absolute) from None

    def look_up_key(self, subject: str, key: str) -> Receipt | None:
        """The receipt of the message that is pending under a key, as `delaymq.Store.look_up_key`.

        Raises:
            WrongType, InvalidArgument: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return next(iter(self._call(Request.look_up_key(subject, key), reads=True)), None)

    def _call(self, request: Request, *, reads: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError


class AsyncClientKeyed:
    """The part of a client that speaks of messages by their keys; `AsyncClient` has these methods.

    Each does what its twin of `delaymq.Client` does; errors are the same, and WrongLoop.
    """

    async def cancel_key(self, subject: str, key: str) -> Outcome:
        """Takes back the message that is pending under a key, as `delaymq.Client.cancel_key`."""
        outcomes: tuple[str, ...] = await self._call(Request.cancel_key(subject, key))
        return Outcome(outcomes[0])

    async def move_key(
        self, subject: str, key: str, *, delay: Duration | None = None, at: datetime | None = None
    ) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Client.move_key`."""
        due_ms, absolute = time_of(delay, at)
        try:
            return moved(await self._call(Request.move_key(subject, key, due_ms, absolute)))[0]
        except InvalidArgument as error:
            raise _named(error, absolute) from None

    async def look_up_key(self, subject: str, key: str) -> Receipt | None:
        """The receipt of the message that is pending under a key, as `delaymq.Client.look_up_key`."""
        return next(iter(await self._call(Request.look_up_key(subject, key), reads=True)), None)

    async def _call(self, request: Request, *, reads: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError


def _named(error: InvalidArgument, absolute: bool) -> InvalidArgument:
    """The error as a store in this process would raise it, which knows what the time is called."""
    if error.argument != "due":
        return error
    argument = "at" if absolute else "delay"
    words = f"{argument}: expected {error.expected}, found {error.found}"
    return type(error)(words, **{**vars(error), "argument": argument})
