"""The destination of a load: a store in a folder that is not open, or a store behind a server. It needs no pyspark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import delaymq
from delaymq.bulk_load import Loaded
from delaymq.errors import (
    Corrupt,
    DiskFull,
    InvalidArgument,
    Locked,
    MissingFile,
    NamesFull,
    NewerFormat,
    StorageError,
    WrongType,
)
from delaymq.loading import StagedRun, discard

TIMEOUT_S = 600.0
"""How long to wait for the answer of a server."""

KEEP_FINISHED = timedelta(days=3_650)
"""Retention while the store is open for a load: so long that the load removes no file."""

REFUSALS = (WrongType, InvalidArgument, Locked, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull)
"""Errors after which certainly nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A store, and how it is reached.

    Attributes:
        path: Its folder, under the path that the staging processes see.
        address: The server that has it open, as `delaymq.connect` takes it; None opens it here.
        token_file: The file with the token of the server.
        timeout_s: How long to wait for its answer, in seconds.
    """

    path: str
    address: str | None = None
    token_file: str | None = None
    timeout_s: float = TIMEOUT_S

    def load(self, job: str, runs: Sequence[StagedRun]) -> Loaded | None:
        """Loads staged runs, once for each job; None if there are none.

        Raises:
            InvalidArgument, TooLarge, MissingFile, Corrupt, NamesFull, DiskFull: As `delaymq.Store.load`.
            Locked: Another process has the store open, and no server was named.
            AmbiguousError, Poisoned: The messages may or may not be stored; the same job tells later.
            StoreError: As `delaymq.open` or `delaymq.connect`.
        """
        return self._loaded(job, runs) if runs else None

    def load_new(self, job: str, runs: Sequence[StagedRun]) -> Loaded | None:
        """As `load`, for runs that were staged for this call alone: they are removed if they are certainly not stored.

        Raises:
            StoreError, InvalidArgument: As `load`.
        """
        try:
            loaded = self.load(job, runs)
        except REFUSALS:
            self._discard(runs)
            raise
        # After a lost answer, the messages that were stored before may be those of these runs.
        if loaded is not None and loaded.again and self.address is None:
            self._discard(runs)
        return loaded

    def _discard(self, runs: Sequence[StagedRun]) -> None:
        # A file that cannot be removed is removed after a day; it must not hide the error that is being raised.
        with suppress(StorageError):
            discard(self.path, runs)

    def check(self) -> None:
        """Checks that the store and its server exist, before any work is done.

        Raises:
            StoreError, StorageError: As `delaymq.snapshot` and `delaymq.connect`.
        """
        delaymq.snapshot(self.path).close()
        if self.address is not None:
            delaymq.connect(self.address, token=self._token(), timeout=self.timeout_s).close()

    def _loaded(self, job: str, runs: Sequence[StagedRun]) -> Loaded:
        if self.address is not None:
            with delaymq.connect(self.address, token=self._token(), timeout=self.timeout_s) as client:
                return client.load(job, runs)
        try:
            store = delaymq.open(self.path, create=False, keep_finished=KEEP_FINISHED)
        except Locked as error:
            words = f"{error}; where a server has it open, say its address"
            raise Locked(words, **vars(error)) from error
        try:
            return store.load(job, runs)
        finally:
            # The messages are durable, even if the log cannot be closed cleanly.
            with suppress(DiskFull):
                store.close()

    def _token(self) -> bytes | None:
        if self.token_file is None:
            return None
        try:
            return Path(self.token_file).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise StorageError(
                f"{self.token_file}: cannot be read: {error.strerror}", errno=error.errno or 0
            ) from error
