"""Notifications to systemd: the datagrams of sd_notify(3), if the environment names a socket."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

VARIABLE = "NOTIFY_SOCKET"


class Service:
    """The supervisor that started this process, if it wants notifications."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Reads the address of the supervisor.

        Args:
            environment: The environment of the process.
        """
        named = environment.get(VARIABLE, "")
        # An address that begins with "@" has no file.
        self._address = "\0" + named[1:] if named.startswith("@") else named

    def tell(self, *lines: str) -> None:
        """Sends assignments, such as READY=1. The service does not depend on them, so no error is raised."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling:
            telling.sendto("\n".join(lines).encode(), self._address)

    def tell_recovering(self, percent: int, patience_seconds: int) -> None:
        """Reports that the service is at work, and asks for that much more time."""
        self.tell(f"STATUS=recovering, {percent} %", f"EXTEND_TIMEOUT_USEC={patience_seconds * 1_000_000}")

    def tell_ready(self, where: str) -> None:
        """Reports that the service listens."""
        self.tell("READY=1", f"STATUS={where}")

    def tell_stopping(self, patience_seconds: int) -> None:
        """Reports that the service finishes its requests, for that long at most."""
        self.tell("STOPPING=1", "STATUS=draining", f"EXTEND_TIMEOUT_USEC={patience_seconds * 1_000_000}")
