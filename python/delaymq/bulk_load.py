"""Bulk loads: messages staged with `delaymq.loading` are added to a store, all of them or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from delaymq import _core
from delaymq._arguments.batches import listed
from delaymq._store.parts import AsyncStorePart, StorePart

if TYPE_CHECKING:
    from delaymq.loading import StagedRun

__all__ = ["AsyncBulkLoads", "BulkLoads", "Loaded", "check_job", "run_rows"]

RunRow: TypeAlias = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load.

    Attributes:
        first_sequence: The sequence of its first message; the others follow, run after run.
        count: The number of its messages.
        again: True if an earlier load of the job had stored the messages, and this one did nothing.
    """

    first_sequence: int
    count: int
    again: bool


class BulkLoads(StorePart):
    """The methods of `Store` for bulk loads."""

    def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none of them, once for each job.

        ::

            from delaymq.loading import stage

            loaded = store.load("orders-2030-01-01", stage(store.path, table))

        All bytes of the runs are read and checked first, which takes seconds for a million messages; deliveries
        continue meanwhile. Messages that are due already become ready soon after. A load returns no receipts: lists and
        deliveries have them.

        Args:
            job: Identifies the load, with the characters of a subject. A job is remembered for seven days: a second
                load of it stores nothing and has the same answer, whichever runs it names and however the first attempt
                ended.
            runs: The staged runs, 1 to 4,096, with 268,435,456 messages in all, staged twenty hours ago at most.

        Returns:
            The result, once it is as durable as the store was opened for.

        Raises:
            WrongType: `job` is not a str, or `runs` is not an iterable of `StagedRun`; nothing was stored.
            InvalidArgument: `job` is refused, or stored another number of messages before; `runs` is empty, names a run
                twice, or names one that another job has loaded or that was staged too long ago; a message is `due`
                later than the store accepts. Nothing was stored.
            TooLarge: There are too many `runs`, `messages` or `subjects`; nothing was stored.
            MissingFile, Corrupt, NewerFormat: A run is missing, has changed since it was staged, or was staged by a
                later release; nothing was stored.
            NamesFull: 65,536 jobs are remembered, or too many runs were loaded within a day; nothing was stored.
            DiskFull, Closed, ForkedProcess: As `publish`.
            Poisoned: As `publish`. After the store is opened again, the same load has the answer.
        """
        first_sequence, count, again = _core.load(self._core, job, run_rows(runs))
        return Loaded(first_sequence, count, again)


class AsyncBulkLoads(AsyncStorePart):
    """The methods of `AsyncStore` for bulk loads."""

    async def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Store.load`.

        If the coroutine is cancelled while it waits, the load is completed, or was never begun; the same load tells
        which.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull, Poisoned,
                Closed, ForkedProcess: As `delaymq.Store.load`.
            WrongLoop: This is not the loop that opened the store.
        """
        first_sequence, count, again = await self._call(_core.load, self._core, job, run_rows(runs))
        return Loaded(first_sequence, count, again)


def check_job(job: str) -> None:
    """Refuses an invalid job name, before anything is staged for it.

    Raises:
        WrongType, InvalidArgument: `job` is refused.
    """
    _core.load_request(job, [])


def run_rows(runs: Iterable[StagedRun]) -> list[RunRow]:
    """Staged runs as the core takes them.

    Raises:
        WrongType, InvalidArgument: Item `index` is not a staged run.
    """
    from delaymq.loading import checked_run  # noqa: PLC0415 - only programs that load pay for the import

    rows = list[RunRow]()
    for index, found in enumerate(listed(runs, "runs", "an iterable of StagedRun")):
        run = checked_run(found, "runs", index)
        rows.append((run.name, run.bytes, run.digest, run.rows))
    return rows
