"""Telling systemd how a service is: the datagrams of sd_notify(3), where the environment names a socket."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

__all__ = ["Service"]

VARIABLE = "NOTIFY_SOCKET"


class Service:
    """The one who started this process, where he wants to know."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Reads where to tell it.

        Args:
            environment: The environment of the process.
        """
        named = environment.get(VARIABLE, "")
        # An address that begins with "@" is one without a file.
        self._address = "\0" + named[1:] if named.startswith("@") else named

    def tell(self, *lines: str) -> None:
        """Sends assignments, such as READY=1. Nobody needs to hear them, so nothing fails here."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling:
            telling.sendto("\n".join(lines).encode(), self._address)

    def tell_recovering(self, percent: int, patience_seconds: int) -> None:
        """It is at work, and wants so much more time before it is given up."""
        self.tell(f"STATUS=recovering, {percent} %", f"EXTEND_TIMEOUT_USEC={patience_seconds * 1_000_000}")

    def tell_ready(self, where: str) -> None:
        """It listens."""
        self.tell("READY=1", f"STATUS={where}")

    def tell_stopping(self, patience_seconds: int) -> None:
        """It answers what is under way, for so long at most."""
        self.tell("STOPPING=1", "STATUS=draining", f"EXTEND_TIMEOUT_USEC={patience_seconds * 1_000_000}")
