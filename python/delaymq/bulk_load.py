"""Loads: what was staged with `delaymq.loading` becomes messages of a store, all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from delaymq import _core
from delaymq._arguments.batches import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from delaymq.loading import StagedRun

__all__ = ["AsyncBulkLoads", "BulkLoads", "Loaded", "check_job", "told_runs"]

Told: TypeAlias = tuple[str, int, int, int]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a load.

    Attributes:
        first_sequence: The sequence of its first message; the others have those behind it, run after run.
        count: How many messages it has.
        again: True where an earlier load of the job had stored them, and nothing was done now.
    """

    first_sequence: int
    count: int
    again: bool


class BulkLoads:
    """The part of a store that takes bulk loads; `Store` has these methods."""

    _core: _core.Store

    def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of runs that were staged beside the store, or none of them, once for each job.

        ::

            from delaymq.loading import stage

            loaded = store.load("orders-2030-01-01", stage(store.path, table))

        Every byte of the runs is read and checked first, seconds for a million messages; deliveries go on meanwhile.
        What is due already is ready soon after. Receipts are not given out: lists and deliveries show them.

        Args:
            job: What makes two loads the same one, made as a subject's name. A job is remembered for seven days: the
                same again stores nothing and has the same answer, whichever runs it names, and however the first
                attempt ended.
            runs: What was staged, 1 to 4,096 of them, with 268,435,456 messages at most, twenty hours ago at most.

        Returns:
            What became of it, once it is as durable as the store was opened for.

        Raises:
            WrongType: `job` is no str, or `runs` is no iterable of `StagedRun`; nothing was stored.
            InvalidArgument: `job` is refused, or stored another number of messages before; `runs` are none, name one
                twice, or one that another job has loaded or that was staged too long ago; a message is `due` later than
                the store takes. Nothing was stored.
            TooLarge: There are too many `runs`, `messages` or `subjects`; nothing was stored.
            MissingFile, Corrupt, NewerFormat: A run is not there, is not what was staged, or a later release staged it;
                nothing was stored.
            NamesFull: 65,536 jobs are remembered, or too many runs were loaded within a day; nothing was stored.
            DiskFull, Closed, ForkedProcess: As `publish`.
            Poisoned: As `publish`; the same load says what became of it once the store is open again.
        """
        first_sequence, count, again = _core.load(self._core, job, told_runs(runs))
        return Loaded(first_sequence, count, again)


class AsyncBulkLoads:
    """The part of a store that takes bulk loads; `AsyncStore` has these methods."""

    _core: _core.Store

    async def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Store.load`.

        Cancelled while it waits, it goes on, or was not begun: the same load says so.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull, Poisoned,
                Closed, ForkedProcess: As there.
            WrongLoop: This is not the loop that opened the store.
        """
        first_sequence, count, again = await self._call(_core.load, self._core, job, told_runs(runs))
        return Loaded(first_sequence, count, again)

    async def _call(self, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:  # noqa: ANN401
        """Calls what may wait on a thread that may; the store knows how."""
        raise NotImplementedError


def check_job(job: str) -> None:
    """Refuses what no job can be named, before anything is staged for it.

    Raises:
        WrongType, InvalidArgument: `job` is refused.
    """
    _core.load_request(job, [])


def told_runs(runs: Iterable[StagedRun]) -> list[Told]:
    """Runs as they cross the boundary.

    Raises:
        WrongType, InvalidArgument: They are none; `index` says which.
    """
    from delaymq.loading import checked_run  # noqa: PLC0415 - who loads nothing need not wait for it

    told = list[Told]()
    for index, found in enumerate(listed(runs, "runs", "an iterable of StagedRun")):
        run = checked_run(found, "runs", index)
        told.append((run.name, run.bytes, run.digest, run.rows))
    return told
