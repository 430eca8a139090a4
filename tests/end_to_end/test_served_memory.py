"""What connections cost a served process in memory, as the kernel counts it: what is bounded, and by how much."""

from __future__ import annotations

import resource
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from serving import MAGIC, PING, Served, frame, serving

MEBI = 1 << 20
IDLE = 2_000
IDLE_BYTES_MAX = 64 * MEBI
FRAME_BYTES_MAX = 8 * MEBI


@pytest.fixture(autouse=True)
def descriptors() -> None:
    """As many open files as all these connections need on this side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 500
    if soft < wanted:
        if hard < wanted:
            pytest.skip(f"this process may have {hard} open files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def added(served: Served, before: int, what: str) -> int:
    found = served.memory_bytes() - before
    print(f"{what} added {found / MEBI:.1f} MiB to {before / MEBI:.1f} MiB")  # noqa: T201 - the figure is wanted
    return found


def test_two_thousand_idle_connections_fit_into_their_memory(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served, ExitStack() as stack:
        before = served.memory_bytes()
        peers = [stack.enter_context(served.connect()) for _ in range(IDLE)]
        # Each has been served, so what that made is there.
        assert all(peer.ask(PING, b"x" * 1_024) == (0, b"x" * 1_024) for peer in peers)
        assert served.metric("connections") == IDLE
        assert added(served, before, f"{IDLE} idle connections") <= IDLE_BYTES_MAX
        assert all(peer.ask(PING, b"y") == (0, b"y") for peer in peers), "they are kept"


def test_what_a_frame_promises_takes_no_memory_before_it_is_there(tmp_path: Path) -> None:
    announced = struct.pack(">ihIhhiih", FRAME_BYTES_MAX - 4, 18, MAGIC, 202, 1, 7, 0, 0) + b"x" * 1_000
    with serving(tmp_path / "store") as served, ExitStack() as stack:
        good = stack.enter_context(served.connect())
        assert good.ask(PING, b"x") == (0, b"x")
        before, reserved = served.memory_bytes(), served.memory_bytes("VmData")
        for _ in range(500):
            stack.enter_context(served.connect()).send(announced)
        while served.metric("input_bytes") < 500 * len(announced):
            pass
        assert added(served, before, "500 promises of 8 MiB") <= 16 * MEBI
        # What is asked of the system and never touched counts as well.
        assert served.memory_bytes("VmData") - reserved <= 64 * MEBI
        assert good.ask(PING, b"y") == (0, b"y")


def test_who_asks_and_never_reads_takes_so_much_and_no_more(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served, ExitStack() as stack:
        good = stack.enter_context(served.connect())
        assert good.ask(PING, b"x") == (0, b"x")
        before = served.memory_bytes()
        request = frame(PING, b"z" * 1_024) * 64
        for _ in range(20):
            peer = stack.enter_context(served.connect())
            peer.socket.setblocking(False)
            sent, stuck = 0, 0
            # Until the other side does not read for a while either: its answers have no room.
            while stuck < 2_000:
                try:
                    sent += peer.socket.send(memoryview(request)[sent % len(request) :])
                    stuck = 0
                except BlockingIOError:
                    stuck += 1
        assert good.ask(PING, b"y") == (0, b"y")
        # 16 MiB of each wait, and the buffers that the system has are not counted.
        assert added(served, before, "20 peers that do not read") <= 20 * 20 * MEBI
