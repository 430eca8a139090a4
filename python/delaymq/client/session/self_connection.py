"""Detection of a TCP connection to itself, which would occupy the port of the server."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from delaymq.errors import Unreachable

if TYPE_CHECKING:  # a plain client does not bring asyncio
    from asyncio.trsock import TransportSocket

    from delaymq.client.session.options import Address

AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER with a time of 0: closing the socket frees its port at once


def self_connection_error(connected: socket.socket | TransportSocket, address: Address) -> Unreachable | None:
    """The error for a socket that is connected to itself, or None. Close the socket then, which frees the port at once.

    A socket that connects to its own port meets itself by TCP's simultaneous open (RFC 9293, 3.5). This happens to a
    client that keeps reconnecting to a local port on which no server listens, if the port is in the system's range of
    ephemeral ports: in 5 of 240,000 attempts the system assigned that very port (Linux 6.18). A server that starts then
    finds its port in use.
    """
    try:
        if connected.getsockname() != connected.getpeername():
            return None
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    except OSError:
        return None  # the connection has ended already, which the next read reports
    reason = "the connection came back to itself"
    return Unreachable(f"no server answers at {address}: {reason}", reason=reason)
