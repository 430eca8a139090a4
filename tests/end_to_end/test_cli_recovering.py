"""An open that takes long draws a bar on a terminal, and leaves nothing of it."""

from __future__ import annotations

import json
import re
import select
import socket
import subprocess
import sys
from pathlib import Path

import delaymq
from commanding import command, environment, on_terminal
from ports import lone_port

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
PATIENCE = "from delaymq.cli.output import terminal; terminal.FIRST_AFTER_SECONDS = terminal.EVERY_SECONDS = 0.0"


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
    drawn = re.compile(r"recovering  \[#*\.*\] +[0-9]+%  (1 fact|[0-9,]+ facts) *")
    assert pictures
    assert all(drawn.fullmatch(picture) for picture in pictures), pictures
    *_, cleared, last, end = shown.decode().split("\r")
    assert (cleared.strip(), last, end) == ("", "group g of a begins at the first unfinished message", "\n")
    assert len(cleared) == len(pictures[-1])
    with delaymq.open(folder) as store:
        assert store.status().pending == MESSAGES


# A recovery that takes seconds on any machine: each piece of it waits.
SLOWLY = """
import sys, time
from delaymq.cli.verbs import serve
def tell(self, progress):
    print("recovering", file=sys.stderr, flush=True)
    time.sleep(0.2)
serve.Recovering.tell = tell
from delaymq.cli import main
sys.exit(main())
"""


def test_a_server_is_heard_nowhere_until_it_has_recovered_and_says_where_it_listens(tmp_path: Path) -> None:
    folder = filled(tmp_path / "store")
    ports = [lone_port(), lone_port()]
    pairs = [f"server.port={ports[0]}", f"http.port={ports[1]}"]
    whole = [sys.executable, "-c", SLOWLY, "serve", "--store", str(folder), "--json"]
    whole += [part for pair in pairs for part in ("--set", pair)]

    def pieces_told() -> int:
        return (tmp_path / "said").read_text().splitlines().count("recovering")

    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=said, env=environment())
        assert process.stdout is not None
        try:
            refused_meanwhile, told = 0, None
            while not select.select([process.stdout], [], [], 0.01)[0]:
                is_recovering = pieces_told() > 0
                answers = [connected(port) for port in ports]
                # It may have begun to listen since; then it is about to say so.
                if any(answers):
                    told = pieces_told()
                    assert select.select([process.stdout], [], [], 20)[0], "it listens and does not say so"
                    break
                refused_meanwhile += is_recovering
            assert json.loads(process.stdout.readline())["address"] == f"127.0.0.1:{ports[0]}"
            assert told in (None, pieces_told()), "it listened and had not recovered"
            assert all(connected(port) for port in ports)
            assert refused_meanwhile >= 10
            with delaymq.connect(f"delaymq://127.0.0.1:{ports[0]}") as client:
                assert client.status().pending == MESSAGES
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()


def connected(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except ConnectionRefusedError:
        return False
    return True


def test_what_is_piped_gets_no_bar(tmp_path: Path) -> None:
    ended = command("groups", "start", "a", "g", "--store", filled(tmp_path / "store"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0,
        "group g of a begins at the first unfinished message\n",
        "",
    )
