"""Bulk loads of both clients; the rows are staged in the folder of the server's store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from delaymq import _core
from delaymq.bulk_load import Loaded, run_rows
from delaymq.client.commands.calls import AsyncClientPart, ClientPart

if TYPE_CHECKING:
    from delaymq.loading import StagedRun


class ClientBulkLoads(ClientPart):
    """The methods of `Client` for bulk loads."""

    def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Store.load`.

        The runs must have been staged in the folder of the server's store; only their names and checksums are sent. A
        lost request is repeated, since the same job has the same answer. Loads of one server run one after the other,
        so the client's `timeout` must be long enough for large ones.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull: As
                `delaymq.Store.load`.
            AmbiguousError: No answer came in time, or a repeated request was refused: the messages may or may not be
                stored. The same call tells later.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        rows: tuple[int, int, bool] = self._call(_core.load_request(job, run_rows(runs)), retry=True)
        return Loaded(*rows)


class AsyncClientBulkLoads(AsyncClientPart):
    """The methods of `AsyncClient` for bulk loads."""

    async def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Client.load`.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull,
                AmbiguousError, Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `delaymq.Client.load`.
            WrongLoop: This is not the loop that made the client.
        """
        rows: tuple[int, int, bool] = await self._call(_core.load_request(job, run_rows(runs)), retry=True)
        return Loaded(*rows)
