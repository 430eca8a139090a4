"""Ports for servers that are to be found again at theirs, or nowhere: no other process is given one by chance."""

from __future__ import annotations

import functools
import os
import random
import socket
from pathlib import Path

__all__ = ["lone_port"]

FIRST, LAST = 21_000, 65_535  # above the ports of QMQ and delaymq
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def lone_port() -> int:
    """A port of 127.0.0.1 that is free, another each time, and none that the system gives to who asks for any.

    A server that is killed leaves its port. From then on whoever binds port 0, or connects, may be given it, in this
    process of the tests or in another; so a test whose server comes back took one in some thousands that was gone.
    The workers of one run draw from ports of their own. Where the system gives all ports, it is one that was free.
    """
    ports = _ports()
    while ports:
        port = ports.pop()
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    with socket.create_server(("127.0.0.1", 0)) as given:
        return int(given.getsockname()[1])


@functools.cache
def _ports() -> list[int]:
    """Those not given yet by this process."""
    first, last = map(int, RANGE.read_text().split())
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports = [port for port in range(FIRST, LAST) if not first <= port <= last and port % workers == worker]
    random.SystemRandom().shuffle(ports)  # tests seed the other one
    return ports
