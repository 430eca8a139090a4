"""The folder of an archive: runs that are there whole or not at all, each with a manifest of what it has.

::

    archive/
      LOCK                                      one archives at a time
      identity                                  the name of its mark in the store's folder, where it has one
      staging/                                  what is being written; swept when the next run begins
      data/run=0000000001/_manifest.json        until when and up to where this run and those before it have all
      data/run=0000000001/subject=a/day=2030-01-01/….parquet
      carried/….parquet                         content of messages that have not ended, by the run that met it first

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

__all__ = ["ArchiveFolder", "Manifest"]

VERSION = 1
NAME = "_manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive has with one of its runs and those before it.

    Attributes:
        store: The store's own name, in hex digits.
        run: The run's number, from 1.
        rows: How many rows the run has.
        ended_ms: All that ended at this time of the store's clock or before is there, as far as the store had told it.
        end_sequence: The sequence behind the last fact that was looked at.
        missed: The facts that were retired before this run looked and after the run before: of each stretch the first,
            and the one behind the last, in order.
        carried: The folder in `carried` that the run wrote.
        version: Of the manifest.
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
        """Reads one.

        Raises:
            StorageError: It is not there, or no manifest of this release.
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
    """The folder of an archive, which is made where there is none.

    Attributes:
        path: Where it is.
        data: Where the runs are.
    """

    def __init__(self, path: Path) -> None:
        """Looks at it, and makes it.

        Raises:
            InvalidArgument: Something else lies there.
            StorageError: It cannot be made.
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
            StorageError: One cannot be read.
        """
        return [Manifest.read(run / NAME) for run in sorted(self.data.glob("run=*"))]

    def carried(self) -> list[Path]:
        """The folders with what the runs carried.

        Raises:
            StorageError: A manifest cannot be read.
        """
        return [self._carried / one.carried for one in self.manifests()]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds it for one run, and sweeps what a run that was killed has left.

        Raises:
            Busy: Another run has it.
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
                    shutil.rmtree(left, ignore_errors=True)  # a job whose caller was killed may still write to it
            yield

    def staged(self) -> tuple[Path, Path]:
        """Folders for a run and for what it carries, not yet there, of one name."""
        name = uuid.uuid4().hex
        return self._staging / name, self._carried / name

    def commit(self, staged: Path, manifest: Manifest) -> None:
        """Makes a run that is written a part of the archive; before, nobody sees any of it, and after, it stays.

        Raises:
            StorageError: The operating system refused a call; it is not committed.
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
        """Has retention wait for this archive: what facts from `end_sequence` on told stays in the store's log. None
        lets go. The mark is a file in the folder of pins; until the new one is there for sure, the old one is.

        Raises:
            StorageError: The folder of the store cannot be written to.
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
        """The archive's own name, which it keeps wherever it is moved to."""
        path = self.path / "identity"
        if not path.exists():
            new = self._staging / "identity"
            new.write_text(uuid.uuid4().hex, "ascii")
            _sync(new)
            new.rename(path)
            _sync(self.path)
        return path.read_text("ascii").strip()


def _synced(folder: Path) -> None:
    """Has all that lies below a folder on the disk, and then the folder."""
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
