"""System calls that Python has no words for: mounts, loop devices, shutdowns of file systems, quotas."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import time
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS = 0x20000
_PRIVATE_ALL = (1 << 18) | (1 << 14)
_LAZILY = 2
_LOOP_CONTROL = "/dev/loop-control"
_LOOP_GET_FREE, _LOOP_CONFIGURE = 0x4C82, 0x4C0A
_LOOP_MAJOR = 7
_DETACH_WHEN_CLOSED = 4
_SHUT_DOWN = 0x8004587D  # FS_IOC_SHUTDOWN, the same for ext4 and XFS
_WITHOUT_LOG_FLUSH = 2  # what is not on the disk yet is gone, the journal's part in memory too
_SET_QUOTA, _USER_QUOTA = 0x800008, 0
_BLOCK_LIMITS = 1


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def keep_mounts_apart() -> None:
    """What this process mounts from here on is seen by it and its children alone, and goes with the last of them."""
    _checked(_LIBC.unshare(_NEW_MOUNTS), "unshare")
    _checked(_LIBC.mount(None, b"/", None, ctypes.c_ulong(_PRIVATE_ALL), None), "mounts of our own")


def mount(device: str, folder: Path, kind: str, data: str = "") -> None:
    _checked(
        _LIBC.mount(device.encode(), bytes(folder), kind.encode(), ctypes.c_ulong(0), data.encode()), f"mount {folder}"
    )


def unmount(folder: Path, patience_seconds: float = 5) -> None:
    """Waits for those who use it yet: a process that another thread starts has our descriptors until it runs."""
    end = time.monotonic() + patience_seconds
    while True:
        try:
            return _checked(_LIBC.umount2(bytes(folder), 0), f"umount {folder}")
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
        time.sleep(0.002)


def let_go(folder: Path) -> None:
    """Unmounts it whoever uses it: it is gone when they are."""
    _checked(_LIBC.umount2(bytes(folder), _LAZILY), f"umount {folder}")


def shut_down(folder: int) -> None:
    """Shuts the file system of an open folder down as a power cut does: what is not on its disk is lost."""
    fcntl.ioctl(folder, _SHUT_DOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))


def let_go_below(folder: Path) -> None:
    """As `let_go`, for every mount in a folder."""
    mounted = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for one in mounted:
        if folder in one.parents:
            let_go(one)


def attach_loop(image: int) -> tuple[int, str]:
    """A loop device over an open file: its descriptor, and its path. It goes when nobody has it open any more."""
    for _ in range(200):
        control = os.open(_LOOP_CONTROL, os.O_RDWR)
        try:
            number = fcntl.ioctl(control, _LOOP_GET_FREE)
        finally:
            os.close(control)
        path = f"/dev/loop{number}"
        if not Path(path).exists():
            os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(_LOOP_MAJOR, number))
        device = os.open(path, os.O_RDWR)
        about = struct.pack("=QQQQQIIII64s64s32sQQ", 0, 0, 0, 0, 0, 0, 0, 0, _DETACH_WHEN_CLOSED, b"", b"", b"", 0, 0)
        try:
            fcntl.ioctl(device, _LOOP_CONFIGURE, struct.pack("=II", image, 0) + about + bytes(64))
        except OSError as error:
            os.close(device)
            if error.errno != errno.EBUSY:  # somebody else took it first
                raise
        else:
            return device, path
    raise OSError(errno.EBUSY, "no loop device stays free")


def limit_blocks(device: str, user: int, kibibytes: int) -> None:
    """How much of a file system with user quotas a user may take; 0 for all of it."""
    # struct if_dqblk: two limits of blocks, space, two limits of files, files, two times, which of them are valid.
    limits = struct.pack("=8QI4x", kibibytes, kibibytes, 0, 0, 0, 0, 0, 0, _BLOCK_LIMITS)
    command = (_SET_QUOTA << 8) | _USER_QUOTA
    result = _LIBC.quotactl(ctypes.c_int(command), device.encode(), ctypes.c_int(user), limits)
    _checked(result, f"quota on {device}")
