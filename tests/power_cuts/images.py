"""File systems in sparse files, on loop devices, that can lose their power."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from power_cuts import kernel

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Kind:
    """A kind of file system."""

    name: str
    maker: tuple[str, ...]
    mebibytes: int
    """The size of an image: XFS takes no smaller ones."""
    data: str = ""

    @property
    def program(self) -> str:
        return self.maker[0]


EXT4 = Kind("ext4", ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"), 96)
XFS = Kind("xfs", ("mkfs.xfs", "-q", "-f", "-K"), 320)
KINDS = {kind.name: kind for kind in (EXT4, XFS)}
SMALL_EXT4 = Kind("ext4", EXT4.maker, 24)
QUOTA_EXT4 = Kind("ext4", (*EXT4.maker, "-O", "quota"), 48, "usrquota")
QUOTA_XFS = Kind("xfs", XFS.maker, XFS.mebibytes, "uquota")


class UnmountableError(Exception):
    """The file system did not survive the cut itself: whatever was on it, nothing can be said of what it held."""


class Image:
    """A file system of its own, mounted in a folder. Nothing of it is left once this process has ended, however it
    ends: the file has no name any more, the mount is this process's alone, and the loop device goes with it.
    """

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self._top: int | None = None
        self._is_mounted = False
        self.folder = Path(tempfile.mkdtemp(prefix=f"{kind.name}-", dir=folder))
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(kind.mebibytes * MEBIBYTE)
            self._device, self.device = kernel.attach_loop(file.fileno())
        try:
            subprocess.run([*kind.maker, self.device], check=True, capture_output=True, text=True)
            self._mount()
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._is_mounted:
            self._close_top()
            kernel.let_go(self.folder)
        self._let_go()

    def cut(self) -> None:
        """Takes the power away: from here on every call fails, and nothing more reaches the disk."""
        assert self._top is not None
        kernel.shut_down(self._top)

    def restore(self) -> None:
        """Mounts it again, with what its journal says, once nobody uses it."""
        self._unmount()
        try:
            self._mount()
        except OSError as error:
            raise UnmountableError(str(error)) from error

    def fill(self, left_kibibytes: int) -> Path:
        """Takes the room of the disk but for so much; the file that has it."""
        filler = self.folder / "filler"
        about = os.statvfs(self.folder)
        take = about.f_bavail * about.f_frsize - left_kibibytes * 1024
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(take, 1))
            os.fsync(file.fileno())
        return filler

    def _mount(self) -> None:
        kernel.mount(self.device, self.folder, self.kind.name, self.kind.data)
        self._is_mounted = True
        # Open beforehand: a cut is made within the moment that it is meant for.
        self._top = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)

    def _unmount(self) -> None:
        self._close_top()
        kernel.unmount(self.folder)
        self._is_mounted = False

    def _close_top(self) -> None:
        if self._top is not None:
            os.close(self._top)
            self._top = None

    def _let_go(self) -> None:
        os.close(self._device)
        self.folder.rmdir()
