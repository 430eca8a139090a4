"""Bulk loads into a server, whose store lies where the rows were staged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq.bulk_load import Loaded, told_runs

if TYPE_CHECKING:
    from delaymq._core import Request
    from delaymq.loading import StagedRun

__all__ = ["AsyncClientBulkLoads", "ClientBulkLoads"]


class ClientBulkLoads:
    """The part of a client that asks for bulk loads; `Client` has these methods."""

    def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Store.load`.

        They were staged in the folder of the server's store, which the stager saw by whatever path; only their names
        and checks are sent. A lost answer is asked for again: the same job has the same answer. Loads wait for each
        other in the server, so the `timeout` of the client has to be long enough for large ones.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull: As there.
            AmbiguousError: No answer came in time, or what came behind a lost answer was a refusal: it may be stored or
                not. The same call says so later.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        told: tuple[int, int, bool] = self._call(_core.load_request(job, told_runs(runs)), again=True)
        return Loaded(*told)

    def _call(self, request: Request, *, again: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError


class AsyncClientBulkLoads:
    """The part of a client that asks for bulk loads; `AsyncClient` has these methods."""

    async def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Client.load`.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull,
                AmbiguousError, Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As there.
            WrongLoop: This is not the loop that made the client.
        """
        told: tuple[int, int, bool] = await self._call(_core.load_request(job, told_runs(runs)), again=True)
        return Loaded(*told)

    async def _call(self, request: Request, *, again: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError
