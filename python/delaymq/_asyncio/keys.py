"""Commands on messages by their keys, for coroutines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from delaymq import _core
from delaymq._arguments.moves import key_moves_of, keys_of, moved, time_of
from delaymq._store.parts import AsyncStorePart
from delaymq.durations import Duration
from delaymq.pending import LookedUp, looked_up_key
from delaymq.receipt import Moved, Outcome


class AsyncKeyCommands(AsyncStorePart):
    """The methods of `AsyncStore` that address pending messages by their keys.

    Each does what the method of `delaymq.Store` does, on a thread of the store. It raises the same errors,
    and WrongLoop.
    """

    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Store.cancel_key`."""
        return Outcome(await self._call(_core.cancel_key, self._core, subject, key, command_id))

    async def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Store.cancel_keys`."""
        words = await self._call(_core.cancel_keys, self._core, subject, keys_of(keys), command_id)
        return [Outcome(word) for word in words]

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
        due_ms, absolute = time_of(delay, at)
        answers = await self._call(_core.move_key, self._core, subject, key, due_ms, absolute, command_id)
        return moved(answers)[0]

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
        rows = key_moves_of(keys, delay, at)
        return moved(await self._call(_core.move_keys, self._core, subject, rows, command_id))

    async def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Store.look_up_key`."""
        return looked_up_key(subject, await self._call(_core.look_up_key, self._core, subject, key))
