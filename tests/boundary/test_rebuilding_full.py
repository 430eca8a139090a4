"""Runs made again on a file system that is full, or takes nothing: an error that says so, and nothing is changed."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import delaymq
from boundary.test_rebuilding import MESSAGES, PIECE, SHARED, compared, files, remove, taken, waiting
from boundary.test_rebuilding_harm import left
from delaymq import DiskFull, PermissionDenied, StorageError
from delaymq.rebuilding import Plan, adopt, plan, rebuild_all
from delaymq.testing import Clock
from full_disks import fill, mounted

MOUNT_MIB = 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a small file system in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", f"size={MOUNT_MIB}m", "tmpfs"):
        yield folder


def take_all(disk: Path) -> Callable[[], None]:
    """Takes all the room that is left, and says how to give it back."""
    return fill(disk).unlink


def take_nothing(disk: Path) -> Callable[[], None]:
    """Makes the file system one that can only be read, and says how to end that."""

    def remounted(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True, timeout=30)

    remounted("ro")
    return lambda: remounted("rw")


HARMS = pytest.mark.parametrize(
    ("harm", "error", "number"),
    [(take_all, DiskFull, errno.ENOSPC), (take_nothing, PermissionDenied, errno.EACCES)],
    ids=["full", "takes nothing"],
)
Harm = Callable[[Path], Callable[[], None]]


def planned_on(disk: Path) -> tuple[Path, Clock, set[bytes], Plan]:
    """A store whose run is gone, and the plan."""
    path, clock = disk / "store", Clock()
    bodies = waiting(path, clock)
    remove(path)
    return path, clock, bodies, plan(path, piece_sequences=PIECE)


def finished(path: Path, clock: Clock, bodies: set[bytes], planned: Plan) -> None:
    """It is adopted after all, by the plan from before, and everything is handed over once."""
    assert adopt(path, planned, rebuild_all(path, planned, stage=True)).messages == MESSAGES
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


@HARMS
def test_where_nothing_can_be_staged_nothing_is_left_of_it(
    disk: Path, harm: Harm, error: type[StorageError], number: int
) -> None:
    path, clock, bodies, planned = planned_on(disk)
    before = files(path)
    ends = harm(disk)
    with pytest.raises(error) as caught:
        rebuild_all(path, planned, stage=True)
    assert (type(caught.value), caught.value.errno, caught.value.store) == (error, number, str(path))
    assert files(path) == before
    _, counts = compared(path)
    assert counts.pending == counts.missing + counts.unreadable == MESSAGES, "it can be compared all the same"
    ends()
    finished(path, clock, bodies, planned)


@HARMS
def test_where_nothing_can_be_adopted_the_store_is_as_before(
    disk: Path, harm: Harm, error: type[StorageError], number: int
) -> None:
    path, clock, bodies, planned = planned_on(disk)
    before = files(path)
    told = rebuild_all(path, planned, stage=True)
    ends = harm(disk)
    with pytest.raises(error) as caught:
        adopt(path, planned, told)
    assert (type(caught.value), caught.value.errno) == (error, number)
    ends()
    # A run that has its name already is named by no checkpoint yet, and one that the room ended for has no name.
    found = {name: data for name, data in files(path).items() if not name.startswith(("runs/", "loads/"))}
    assert {name: data for name, data in found.items() if not name.endswith(".tmp")} == before
    assert error is PermissionDenied or left(path) == []
    finished(path, clock, bodies, planned)
    with delaymq.open(path, clock=clock, **SHARED) as store:
        store.checkpoint()
