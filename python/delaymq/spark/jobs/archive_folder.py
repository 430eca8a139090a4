"""The folder of an archive: runs that exist as a whole or not at all, each with a manifest.

::

    archive/
      LOCK                                      held by one run at a time
      identity                                  the name of its mark in the store's folder, if it has one
      staging/                                  files being written; removed when the next run begins
      data/run=0000000001/_manifest.json        the time and sequence up to which the archive is complete
      data/run=0000000001/subject=a/day=2030-01-01/….parquet
      carried/….parquet                         content of messages that had not ended, by the first run that read it

A run is committed by one rename, of its folder in `staging` to its name in `data`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from delaymq._arguments.argument_errors import refused
from delaymq.errors import Busy, StorageError

VERSION = 1
NAME = "_manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of an archive up to one of its runs.

    Attributes:
        store: The id of the store, in hex digits.
        run: The number of the run, from 1.
        rows: The number of rows of the run.
        ended_ms: The archive has everything that ended up to this time of the store's clock, as far as the store knew.
        end_sequence: The sequence after the last fact that was read.
        missed: Ranges of facts that were retired between the run before and this run: the first sequence of each, and
            the one after its last, in order.
        carried: The folder in `carried` that the run wrote.
        version: The version of the manifest.
    """

    store: str
    run: int
    rows: int
    ended_ms: int
    end_sequence: int
    missed: tuple[tuple[int, int], ...] = ()
    carried: str = ""
    version: int = VERSION

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Reads a manifest.

        Raises:
            StorageError: It is missing, or not a manifest of this release.
        """
        try:
            fields = json.loads(path.read_text("utf-8"))
            found = cls(**fields)
            if found.version != VERSION:
                raise StorageError(f"{path}: version {found.version}, and this release knows {VERSION}")
            return replace(found, missed=tuple((int(first), int(end)) for first, end in found.missed))
        except (ValueError, TypeError, IndexError, OSError) as error:
            raise StorageError(f"{path} is no manifest of an archive: {error}") from error


class ArchiveFolder:
    """The folder of an archive. It is created if it does not exist.

    Attributes:
        path: The folder.
        data: The folder of the runs.
    """

    def __init__(self, path: Path) -> None:
        """Checks or creates the folder.

        Raises:
            InvalidArgument: It holds something else.
            StorageError: It cannot be created.
        """
        self.path, self.data = path, path / "data"
        self._staging, self._carried = path / "staging", path / "carried"
        if path.exists() and not self.data.is_dir() and (not path.is_dir() or any(path.iterdir())):
            raise refused("archive", "an archive, or a folder that is empty or not there", str(path))
        try:
            for folder in (path, self._staging, self._carried, self.data):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path} cannot be made: {error}", errno=error.errno or 0) from error

    def manifests(self) -> list[Manifest]:
        """The manifest of each run, in order.

        Raises:
            StorageError: One is unreadable.
        """
        return [Manifest.read(run / NAME) for run in sorted(self.data.glob("run=*"))]

    def carried(self) -> list[Path]:
        """The folders with the content that the runs carried.

        Raises:
            StorageError: A manifest is unreadable.
        """
        return [self._carried / one.carried for one in self.manifests()]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the archive for one run, and removes files of a run that was killed.

        Raises:
            Busy: Another run uses it.
        """
        with (self.path / "LOCK").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"{self.path}: another run archives into it") from None
            kept = set(self.carried())
            for left in [*self._staging.iterdir(), *self._carried.iterdir()]:
                if left.is_file():
                    left.unlink()
                elif left not in kept:
                    shutil.rmtree(left, ignore_errors=True)  # a job of a killed process may still write to it
            yield

    def staged(self) -> tuple[Path, Path]:
        """New folder names for a run and for the content that it carries."""
        name = uuid.uuid4().hex
        return self._staging / name, self._carried / name

    def commit(self, staged: Path, manifest: Manifest) -> None:
        """Makes a written run visible in the archive, durably and atomically.

        Raises:
            StorageError: The operating system refused a call; the run is not committed.
        """
        try:
            for folder in (staged, self._carried / manifest.carried):
                folder.mkdir(exist_ok=True)
            (staged / NAME).write_text(json.dumps(asdict(manifest), indent=1) + "\n", "utf-8")
            _synced(self._carried)
            _synced(staged)
            staged.rename(self.data / f"run={manifest.run:010}")
            _sync(self.data)
        except OSError as error:
            raise StorageError(f"{staged} cannot be committed: {error}", errno=error.errno or 0) from error

    def mark(self, store: Path, end_sequence: int | None) -> None:
        """Makes retention keep the store's log from `end_sequence` on for this archive. None ends this.

        The mark is a file in the folder of pins. The old mark is removed once the new one is durable.

        Raises:
            StorageError: The folder of the store is not writable.
        """
        if end_sequence is None and not (self.path / "identity").exists():
            return
        try:
            pins, name = store / "pins", self._identity()
            others = list(pins.glob(f"archived-*-{name}"))
            if end_sequence is not None:
                mark = pins / f"archived-{end_sequence:020}-{name}"
                mark.touch(mode=0o600)
                _sync(pins)
                others = [other for other in others if other != mark]
            for other in others:
                other.unlink()
            _sync(pins)
        except OSError as error:
            raise StorageError(f"{store} cannot be marked: {error}", errno=error.errno or 0) from error

    def _identity(self) -> str:
        """The id of the archive, which does not change when it is moved."""
        path = self.path / "identity"
        if not path.exists():
            new = self._staging / "identity"
            new.write_text(uuid.uuid4().hex, "ascii")
            _sync(new)
            new.rename(path)
            _sync(self.path)
        return path.read_text("ascii").strip()


def _synced(folder: Path) -> None:
    """Syncs all files and folders below a folder, then the folder."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(place, name))
        _sync(Path(place))


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
