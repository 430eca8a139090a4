"""A link that delays each packet and loses some, on any kernel that has TUN: few have what does it for `tc`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import struct
import threading
import time
from collections import deque
from typing import Self

DELAY_SECONDS = 0.02
LOST = 0.05
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_BYTES_MAX = 65_536


def tunnel(name: str) -> int:
    """Makes a device in the namespace of this thread: what is sent there is read from the descriptor, and so back."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return descriptor


class LossyLink:
    """Joins two devices, until the end of the block, where they are gone."""

    def __init__(self, one: int, other: int) -> None:
        self._ends = {one: other, other: one}
        self._waiting: deque[tuple[float, int, bytes]] = deque()
        self._ending, self._to_end = os.pipe()
        self._thread = threading.Thread(target=self._pass_on)
        self.lost = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        os.close(self._to_end)
        self._thread.join()
        for descriptor in (*self._ends, self._ending):
            os.close(descriptor)

    def _pass_on(self) -> None:
        while True:
            left = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            ready, _, _ = select.select([*self._ends, self._ending], [], [], left)
            if self._ending in ready:
                return
            for end in ready:
                self._take(end)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, to, packet = self._waiting.popleft()
                _write(to, packet)

    def _take(self, end: int) -> None:
        packet = os.read(end, PACKET_BYTES_MAX)
        if random.random() < LOST:
            self.lost += 1
        else:
            self._waiting.append((time.monotonic() + DELAY_SECONDS, self._ends[end], packet))


def _write(to: int, packet: bytes) -> None:
    # A device that is not up yet, or has no room, loses one more.
    with contextlib.suppress(OSError):
        os.write(to, packet)
