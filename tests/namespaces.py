"""Machines of a test: network namespaces of the kernel, joined by a router that loses what a test tells it to lose.

Packets are lost on their way, and nobody is told, as when a cable is pulled: neither end sees an error or the end of a
connection. Nothing of it is in the namespace of the tests but the names of the others.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from full_disks import MUST_RUN, cannot
from lossy_links import LossyLink, tunnel
from power_cuts.equipment import install

NAMES = Path("/run/netns")
CLONE_NEWNET = 0x4000_0000
ROUTER = "router"
LINK = "eth0"
NUMBERS = itertools.count()


class Network:
    """Places with an address each. In the block, `inside` runs at a place, and `cut` parts some from others.

    The link of a place that is `lossy` is a `LossyLink`.
    """

    def __init__(self, places: Sequence[str], lossy: Collection[str] = ()) -> None:
        self.addresses = {place: f"10.9.{number}.1" for number, place in enumerate(places, 1)}
        self._lossy, self._parts = lossy, ExitStack()
        self.links: list[LossyLink] = []
        self._prefix = f"delaymq-{os.getpid()}-{next(NUMBERS)}-"

    def __enter__(self) -> Self:
        _must_be_possible()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        self._remove()

    def _make(self) -> None:
        if reason := self._add(ROUTER):
            cannot(f"no network namespace can be made: {reason}")
        with self.inside(ROUTER):
            # Only packets that are lost on purpose are: the way back is not looked at.
            for setting in ("ip_forward=1", "conf/all/rp_filter=0", "conf/default/rp_filter=0"):
                name, _, value = setting.partition("=")
                Path("/proc/sys/net/ipv4", name).write_text(value)
        for number, (place, address) in enumerate(self.addresses.items()):
            if reason := self._add(place):
                cannot(f"no network namespace can be made: {reason}")
            near, far = f"to{number}", address.removesuffix("1") + "254"
            if place in self._lossy:
                with self.inside(ROUTER):
                    one = tunnel(near)
                with self.inside(place):
                    other = tunnel(LINK)
                self.links.append(self._parts.enter_context(LossyLink(one, other)))
            else:
                self._ip(ROUTER, f"link add {near} type veth peer name {LINK} netns {self._name(place)}")
            self._ip(ROUTER, f"address add {far}/24 dev {near}")
            self._ip(ROUTER, f"link set dev {near} up")
            self._ip(place, f"address add {address}/24 dev {LINK}")
            self._ip(place, f"link set dev {LINK} up")
            self._ip(place, f"route add default via {far}")

    def _add(self, place: str) -> str:
        """Makes a namespace; says why it could not."""
        ended = subprocess.run(["ip", "netns", "add", self._name(place)], capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            self._ip(place, "link set dev lo up")
        return ended.stderr.strip()

    def _remove(self) -> None:
        self._parts.close()
        # A namespace, with its end of each link, is gone once no process and no name of it is left.
        for place in (*self.addresses, ROUTER):
            if (NAMES / self._name(place)).exists():
                subprocess.run(["ip", "netns", "delete", self._name(place)], check=True)

    def _name(self, place: str) -> str:
        return self._prefix + place

    def _ip(self, place: str, words: str) -> None:
        subprocess.run(["ip", "-n", self._name(place), *words.split()], check=True)

    @contextmanager
    def inside(self, place: str) -> Iterator[None]:
        """Moves this thread to a place. Sockets, threads and processes that it makes in the block stay there."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(NAMES / self._name(place), os.O_RDONLY)
            try:
                _move(there)
            finally:
                os.close(there)
            yield
        finally:
            _move(own)
            os.close(own)

    @contextmanager
    def cut(self, ways: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Loses each packet from the first of two places to the second, until the end of the block."""
        rules = [f"from {self.addresses[one]} to {self.addresses[other]} blackhole" for one, other in ways]
        added = []
        try:
            for rule in rules:
                self._ip(ROUTER, f"rule add {rule}")
                added.append(rule)
            yield
        finally:
            for rule in added:
                self._ip(ROUTER, f"rule delete {rule}")

    def others(self, place: str) -> list[str]:
        return [other for other in self.addresses if other != place]

    def isolated(self, place: str) -> list[tuple[str, str]]:
        """The ways between a place and all others."""
        return both(place, *self.others(place))


def both(one: str, *others: str) -> list[tuple[str, str]]:
    """The ways between a place and some others, in both directions."""
    return [way for other in others for way in ((one, other), (other, one))]


def _must_be_possible() -> None:
    if os.geteuid() != 0:
        cannot("only root can make network namespaces")
    if shutil.which("ip") is None:
        if not os.environ.get(MUST_RUN):
            cannot("iproute2 is not installed")
        if reason := install("iproute2"):
            cannot(reason)


def _move(namespace: int) -> None:
    # From Python 3.12 on, os.setns.
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
