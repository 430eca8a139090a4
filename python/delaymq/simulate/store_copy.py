"""A copy of a store to try things on, also of one that is open.

Nothing of an open store is locked or waited for: a pin keeps all of its files, and what is copied is what a power cut
would leave at some moment. Checkpoints are copied first, then the log, which reaches behind each of them, then the
runs, with all that the log and the checkpoints name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from delaymq.errors import Locked, NotAStore, StorageError
from delaymq.tables import snapshot

__all__ = ["copied"]

ORDER = ("checkpoints", "log", "loads", "runs")
WRITTEN = "log"
"""Files of all others are written once, and then only removed, or given back in part, which nothing is that has a
second name: one for them is as good as a copy."""
PIECE_BYTES = 1 << 20
BLOCK_BYTES = 4096
"""What is given back of a file is given back in these."""
NOTHING = bytes(BLOCK_BYTES)


@contextmanager
def copied(store: Path, beside: Path | None = None) -> Iterator[Path]:
    """A copy of the store, which is removed at the end. One that is not open cannot be opened while it is being copied.

    Args:
        store: The store's folder.
        beside: Where the copy is made; the folder that the store lies in by default, where files that are never
            written again take no room a second time.

    Raises:
        Locked: Somebody has the store open, and no pin can be left in its folder.
        NotAStore: There is no store in the folder.
        Corrupt, MissingFile: It is open, and what an open would need is damaged or gone.
        StorageError: The folder cannot be read.
        OSError: A file cannot be copied.
    """
    with tempfile.TemporaryDirectory(prefix=".delaymq-simulate-", dir=beside or store.resolve().parent) as folder:
        copy = Path(folder)
        with _kept(store):
            shutil.copy2(store / "identity", copy / "identity")
            for name in ORDER:
                (copy / name).mkdir()
                # The log backwards. A store of an earlier format has no folder for loads.
                for file in sorted((store / name).glob("*"), reverse=True):
                    if file.suffix != ".tmp":
                        with suppress(FileNotFoundError):  # nothing named it, or who opens the copy says what did
                            (_copy if name == WRITTEN else _name_again)(file, copy / name / file.name)
        yield copy


def _name_again(file: Path, to: Path) -> None:
    try:
        os.link(file, to)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}:
            raise
        _copy(file, to)


def _copy(file: Path, to: Path) -> None:
    """Copies a segment of the log, its end first, and a run where it cannot have a second name.

    Somebody may write to it meanwhile. A batch is whole before anything of the next one is written: so where something
    of a batch is copied, all before it was there already, and is copied after it.
    """
    with file.open("rb") as source, to.open("wb") as copy:
        size = os.fstat(source.fileno()).st_size
        copy.truncate(size)
        for end in range(size, 0, -PIECE_BYTES):
            start = max(0, end - PIECE_BYTES)
            piece = os.pread(source.fileno(), end - start, start)
            for first, beyond in _written(piece):
                os.pwrite(copy.fileno(), piece[first:beyond], start + first)


def _written(piece: bytes) -> Iterator[tuple[int, int]]:
    """From where to where there is anything: what was never written, or was given back, takes no room in the copy."""
    first: int | None = None
    for at in range(0, len(piece), BLOCK_BYTES):
        is_nothing = NOTHING.startswith(piece[at : at + BLOCK_BYTES])
        if is_nothing and first is not None:
            yield first, at
            first = None
        elif not is_nothing and first is None:
            first = at
    if first is not None:
        yield first, len(piece)


@contextmanager
def _kept(store: Path) -> Iterator[None]:
    """Nothing that is named in the store goes meanwhile: nobody opens it, or who has it open sees a pin."""
    try:
        names = {path.name for path in store.iterdir()}
    except OSError as error:
        raise StorageError(f"open of {store} failed: {error.strerror}", path=str(store), store=str(store)) from error
    if "identity" not in names:
        raise NotAStore(f"{store} is not a delaymq store", path=str(store), store=str(store))
    with (store / "LOCK").open("ab") as lock, nullcontext() if _is_locked(lock) else _pinned(store):
        yield


def _is_locked(lock: BinaryIO) -> bool:
    """Takes the lock that keeps a store from being opened; false where somebody has it open."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _pinned(store: Path) -> Iterator[None]:
    with snapshot(store) as seen:
        if seen.pinned_until is None:
            words = (
                f"{store} is open, and its folder cannot be written to, so that nothing keeps its files while they are "
                "copied: simulate with a snapshot of the disk, or when its process has ended"
            )
            raise Locked(words, path=str(store), store=str(store))
        yield
