"""An open that takes long draws a bar on a terminal, and leaves nothing of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import delaymq
from commanding import command, on_terminal

# Nothing of it is in a checkpoint, for a process that is killed takes none at its end.
FILLED = """
import os, sys, delaymq
store = delaymq.open(sys.argv[1], durability="os")
for _ in range(int(sys.argv[2])):
    store.publish_many("late", [bytes(50)] * 10_000, 3600)
print(store.status().pending, flush=True)
os._exit(0)
"""
MESSAGES = 200_000
# Whoever is quick sees no bar: that is a wait of its own, and not what these tests are about.
PATIENCE = "from delaymq.cli import terminal; terminal.FIRST_AFTER_SECONDS = terminal.EVERY_SECONDS = 0.0"


def filled(folder: Path) -> Path:
    ended = subprocess.run(
        [sys.executable, "-c", FILLED, folder, str(MESSAGES // 10_000)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert int(ended.stdout) == MESSAGES
    return folder


def test_an_open_that_takes_long_draws_a_bar(tmp_path: Path) -> None:
    folder = filled(tmp_path / "store")
    with on_terminal("groups", "start", "a", "g", "--store", folder, before=PATIENCE) as terminal:
        assert terminal.end(60) == 0
    shown = terminal.shown
    pictures = [picture for picture in shown.decode().split("\r") if picture.startswith("recovering")]
    drawn = re.compile(r"recovering  \[#*\.*\] +[0-9]+%  [0-9,]+ facts *")
    assert pictures
    assert all(drawn.fullmatch(picture) for picture in pictures), pictures
    *_, cleared, last, end = shown.decode().split("\r")
    assert (cleared.strip(), last, end) == ("", "group g of a begins at the earliest", "\n")
    assert len(cleared) == len(pictures[-1])
    with delaymq.open(folder) as store:
        assert store.status().pending == MESSAGES


def test_what_is_piped_gets_no_bar(tmp_path: Path) -> None:
    ended = command("groups", "start", "a", "g", "--store", filled(tmp_path / "store"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "group g of a begins at the earliest\n", "")
