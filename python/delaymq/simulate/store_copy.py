"""A copy of a store for experiments, also of one that is open.

An open store is not locked and not delayed: a pin keeps all of its files, and the copy is what a power cut at
some moment would leave. Checkpoints are copied first, then the log, which reaches beyond each of them, then the
runs, which contain all that the log and the checkpoints refer to.
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

ORDER = ("checkpoints", "log", "loads", "runs")
WRITTEN = "log"
"""The only folder with files that are written to again. Files of the others are later only removed, or have holes
punched unless they have a second link, so a hard link is as good as a copy.
"""
PIECE_BYTES = 1 << 20
BLOCK_BYTES = 4096
"""The size of a hole is a multiple of this."""
ZEROS = bytes(BLOCK_BYTES)


@contextmanager
def copy_of(store: Path, beside: Path | None = None) -> Iterator[Path]:
    """A copy of the store, which is removed at the end. A closed store cannot be opened while it is being copied.

    Args:
        store: The store's folder.
        beside: Where the copy is made; by default in the parent folder of the store, where files that are never
            written again take no additional space.

    Raises:
        Locked: A process has the store open, and its folder is not writable for a pin.
        NotAStore: There is no store in the folder.
        Corrupt, MissingFile: It is open, and a file that an open would need is damaged or missing.
        StorageError: The folder cannot be read.
        OSError: A file cannot be copied.
    """
    with tempfile.TemporaryDirectory(prefix=".delaymq-simulate-", dir=beside or store.resolve().parent) as folder:
        copy = Path(folder)
        with _files_kept(store):
            shutil.copy2(store / "identity", copy / "identity")
            for name in ORDER:
                (copy / name).mkdir()
                # In reverse order, which matters for the log.
                # A folder may be missing: a copy by other tools may leave out empty ones.
                for file in sorted((store / name).glob("*"), reverse=True):
                    if file.suffix != ".tmp":
                        with suppress(FileNotFoundError):  # it was not needed; otherwise opening the copy reports it
                            (_copy if name == WRITTEN else _link)(file, copy / name / file.name)
        yield copy


def _link(file: Path, to: Path) -> None:
    try:
        os.link(file, to)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}:
            raise
        _copy(file, to)


def _copy(file: Path, to: Path) -> None:
    """Copies a segment of the log, its end first, or a run that cannot be linked.

    Another process may append meanwhile. A batch is complete before the next one is written: so if any byte of a
    batch is copied, everything before it existed already, and is copied later.
    """
    with file.open("rb") as source, to.open("wb") as copy:
        size = os.fstat(source.fileno()).st_size
        copy.truncate(size)
        for end in range(size, 0, -PIECE_BYTES):
            start = max(0, end - PIECE_BYTES)
            piece = os.pread(source.fileno(), end - start, start)
            for first, beyond in _data_ranges(piece):
                os.pwrite(copy.fileno(), piece[first:beyond], start + first)


def _data_ranges(piece: bytes) -> Iterator[tuple[int, int]]:
    """Ranges of blocks that are not zero, so that unwritten parts and holes take no space in the copy."""
    first: int | None = None
    for at in range(0, len(piece), BLOCK_BYTES):
        is_zero = ZEROS.startswith(piece[at : at + BLOCK_BYTES])
        if is_zero and first is not None:
            yield first, at
            first = None
        elif not is_zero and first is None:
            first = at
    if first is not None:
        yield first, len(piece)


@contextmanager
def _files_kept(store: Path) -> Iterator[None]:
    """Keeps all files of the store: it cannot be opened meanwhile, or the process that has it open sees a pin."""
    try:
        names = {path.name for path in store.iterdir()}
    except OSError as error:
        raise StorageError(f"open of {store} failed: {error.strerror}", path=str(store), store=str(store)) from error
    if "identity" not in names:
        raise NotAStore(f"{store} is not a delaymq store", path=str(store), store=str(store))
    with (store / "LOCK").open("ab") as lock, nullcontext() if _is_locked(lock) else _pinned(store):
        yield


def _is_locked(lock: BinaryIO) -> bool:
    """Takes the lock that keeps a store from being opened; False if another process has it open."""
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
