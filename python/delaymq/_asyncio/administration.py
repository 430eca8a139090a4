"""What an operator does with a store, in coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from delaymq.administration import DEAD_LETTERS, Administration, Consumer, DeadLetter, Group, Subject, over
from delaymq.durations import Duration

if TYPE_CHECKING:
    from delaymq import _core
    from delaymq.store import Start

__all__ = ["AsyncAdministration"]

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class AsyncAdministration:
    """The part of a store that is for operators; `AsyncStore` has these methods.

    Each does what its twin of `delaymq.Store` does, on a thread of the store's own; errors are the
    same, and WrongLoop.
    """

    _core: _core.Store

    async def groups(self) -> list[Group]:
        """All groups, by subject, as `delaymq.Store.groups`."""
        return await self._administer(Administration.groups)

    async def subjects(self) -> list[Subject]:
        """All subjects, in the order in which they came to be, as `delaymq.Store.subjects`."""
        return await self._administer(Administration.subjects)

    async def start_group(self, subject: str, group: str, start: Start = "earliest") -> None:
        """Makes a group without consuming for it, as `delaymq.Store.start_group`."""
        await self._administer(Administration.start_group, subject, group, start)

    async def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Lets a group begin again, as `delaymq.Store.reset_group`."""
        await self._administer(Administration.reset_group, subject, group, start)

    async def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for ever, as `delaymq.Store.remove_group`."""
        await self._administer(Administration.remove_group, subject, group)

    async def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Who consumes for a group, as `delaymq.Store.consumers`."""
        return await self._administer(Administration.consumers, subject, group)

    async def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Store.end_consumer`."""
        return await self._administer(Administration.end_consumer, subject, group, consumer)

    async def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """The dead letters of a group, the oldest first, as `delaymq.Store.dead_letters`."""
        return await self._administer(Administration.dead_letters, subject, group, limit)

    async def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Brings dead letters back, the oldest first, as `delaymq.Store.redrive`."""
        return await self._administer(Administration.redrive, subject, group, limit)

    async def expire(self, subject: str, older_than: Duration) -> int:
        """Gives up ready messages that nobody took for too long, as `delaymq.Store.expire`."""
        return await self._administer(Administration.expire, subject, older_than)

    async def _administer(
        self,
        act: Callable[Concatenate[Administration, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """Does what the plain store does, on a thread that may wait."""
        return await self._call(act, over(self._core), *args, **kwargs)

    async def _call(self, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:  # noqa: ANN401
        """Calls what may wait on a thread that may; the store knows how."""
        raise NotImplementedError
