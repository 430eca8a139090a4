"""A group of copies, one of whose disks hangs: each write and each sync waits, and no call fails."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from full_disks import cannot
from groups import Group, await_true, in_file, traffic
from power_cuts.equipment import why_none, why_not
from power_cuts.images import EXT4, Image

FREEZE, THAW = 0xC0045877, 0xC0045878


@contextmanager
def hanging(folder: Path) -> Iterator[None]:
    """Lets every write to the file system of the folder wait, until the end of the block."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(top, FREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(top, THAW, 0)
    finally:
        os.close(top)


def test_a_primary_whose_writes_hang_is_replaced_and_comes_back(tmp_path: Path) -> None:
    if reason := why_none() or why_not(EXT4):
        cannot(reason)
    with Image(EXT4, tmp_path) as image, Group(tmp_path, in_file(tmp_path)) as group:
        first = group.nodes[0]
        first.folder.parent.mkdir(exist_ok=True)
        first.folder.symlink_to(image.folder / "node1", target_is_directory=True)
        (image.folder / "node1").mkdir()
        group.start()
        with traffic(group.url) as flowing:
            flowing.await_more()
            assert group.primary() is first
            with hanging(image.folder):
                group.await_primary(other_than=first)
                assert "that the store waits for" in first.said()
                flowing.await_more()
            await_true(lambda: group.status(first)["role"] == "replica", "it has stepped down")
            group.await_whole()
            flowing.end()
        for node in group.nodes:
            node.kill()
