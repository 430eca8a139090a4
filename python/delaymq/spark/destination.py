"""Where a load goes: a store in a folder that nobody has open, or one that a server has. No pyspark is needed here."""

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

__all__ = ["TIMEOUT_S", "Destination"]

TIMEOUT_S = 600.0
"""How long the answer of a server is waited for."""

KEEP_FINISHED = timedelta(days=3_650)
"""Whose store it is says what it keeps; nothing goes because it was loaded into."""

REFUSALS = (WrongType, InvalidArgument, Locked, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull)
"""What says for certain that nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A store, and how it is reached.

    Attributes:
        path: Its folder, which whoever stages sees under this path.
        address: The server that has it open, as `delaymq://host:port`; None opens it here.
        token_file: The file with what proves to the server that this may connect.
        timeout_s: How long its answer is waited for, in seconds.
    """

    path: str
    address: str | None = None
    token_file: str | None = None
    timeout_s: float = TIMEOUT_S

    def load(self, job: str, runs: Sequence[StagedRun]) -> Loaded | None:
        """Has what was staged stored, once for each job; None where nothing was staged.

        Raises:
            InvalidArgument, TooLarge, MissingFile, Corrupt, NamesFull, DiskFull: As `delaymq.Store.load`.
            Locked: Another process has the store open, and no server was named.
            AmbiguousError, Poisoned: It may be stored or not: the same job says so later.
            StoreError: As `delaymq.open` or `delaymq.connect`.
        """
        return self._loaded(job, runs) if runs else None

    def load_new(self, job: str, runs: Sequence[StagedRun]) -> Loaded | None:
        """The same of runs that whoever calls has staged for this call alone: where they are surely not stored they are
        removed.

        Raises:
            StoreError, InvalidArgument: As `load`.
        """
        try:
            loaded = self.load(job, runs)
        except REFUSALS:
            self._let_go(runs)
            raise
        # Behind a lost answer it may be these that were stored before.
        if loaded is not None and loaded.again and self.address is None:
            self._let_go(runs)
        return loaded

    def _let_go(self, runs: Sequence[StagedRun]) -> None:
        # What cannot be removed goes after a day, and hides nothing that is being raised or told.
        with suppress(StorageError):
            discard(self.path, runs)

    def check(self) -> None:
        """Looks whether the store and its server are there, before anything is done for them.

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
            # What was loaded is durable, whether the log could be ended in order or not.
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
