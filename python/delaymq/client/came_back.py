"""A connection whose both ends are one: it is known for what it is, and lets go of the port of the server."""

from __future__ import annotations

import socket
import struct
from asyncio.trsock import TransportSocket

from delaymq.client.address import Address
from delaymq.errors import Unreachable

__all__ = ["came_back"]

AT_ONCE = struct.pack("ii", 1, 0)  # of SO_LINGER: what is closed does not wait at its port


def came_back(connected: socket.socket | TransportSocket, address: Address) -> Unreachable | None:
    """Why nobody answers, where a connection came back to its own end; close it then, which frees the port at once.

    A socket that connects to itself has met its peer as TCP sees it (RFC 9293, 3.5, simultaneous open). It happens to
    who asks a port of this machine again and again while nobody listens there: its own end is given that very port in
    one of some 50,000 tries where the port is one of those for own ends. A server that starts then finds it taken.
    """
    try:
        if connected.getsockname() != connected.getpeername():
            return None
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    except OSError:
        return None  # it is over already, as whoever reads from it will be told
    reason = "the connection came back to itself"
    return Unreachable(f"no server answers at {address}: {reason}", reason=reason)
