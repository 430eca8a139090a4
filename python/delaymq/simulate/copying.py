"""A copy of a store that nobody has open, to try things on."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delaymq.errors import Locked, NotAStore, StorageError

__all__ = ["copied"]

IMMUTABLE = ("runs", "loads", "checkpoints")
"""Files of these are written once, and then only removed, or given back in part, which nothing is that has a second
name: one for them is as good as a copy."""
WRITTEN = ("log",)


@contextmanager
def copied(store: Path, beside: Path | None = None) -> Iterator[Path]:
    """A copy of the store, which is removed at the end. Nobody can open the store while it is being copied.

    Args:
        store: The store's folder.
        beside: Where the copy is made; the folder that the store lies in by default, where files that are never
            written again take no room a second time.

    Raises:
        Locked: Somebody has the store open.
        NotAStore: There is no store in the folder.
        StorageError: The folder cannot be read.
        OSError: A file cannot be copied.
    """
    with tempfile.TemporaryDirectory(prefix=".delaymq-simulate-", dir=beside or store.resolve().parent) as folder:
        copy = Path(folder)
        with _held(store):
            shutil.copy2(store / "identity", copy / "identity")
            for name in (*IMMUTABLE, *WRITTEN):
                (copy / name).mkdir()
                # A store of an earlier format has no folder for loads.
                for file in sorted((store / name).glob("*")):
                    if file.is_file() and file.suffix != ".tmp":
                        _copy(file, copy / name / file.name, is_final=name in IMMUTABLE)
        yield copy


def _copy(file: Path, to: Path, *, is_final: bool) -> None:
    if is_final:
        try:
            os.link(file, to)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}:
                raise
        else:
            return
    shutil.copy2(file, to)


@contextmanager
def _held(store: Path) -> Iterator[None]:
    try:
        names = {path.name for path in store.iterdir()}
    except OSError as error:
        raise StorageError(f"open of {store} failed: {error.strerror}", path=str(store), store=str(store)) from error
    if "identity" not in names:
        raise NotAStore(f"{store} is not a delaymq store", path=str(store), store=str(store))
    with (store / "LOCK").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            words = f"{store} is open: copy it when its process has ended, or simulate with a snapshot of the disk"
            raise Locked(words, path=str(store), store=str(store)) from None
        yield
