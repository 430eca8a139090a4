"""A connection whose both ends are one: it is known for what it is, and lets go of the port of the server."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from delaymq.errors import Unreachable

if TYPE_CHECKING:  # a plain client does not bring asyncio
    from asyncio.trsock import TransportSocket

    from delaymq.client.session.address import Address

__all__ = ["self_connection_error"]

AT_ONCE = struct.pack("ii", 1, 0)  # of SO_LINGER: what is closed does not wait at its port


def self_connection_error(connected: socket.socket | TransportSocket, address: Address) -> Unreachable | None:
    """Why nobody answers, where a connection came back to its own end; close it then, which frees the port at once.

    A socket that connects to itself has met its peer as TCP sees it (RFC 9293, 3.5, simultaneous open). It happens to
    who asks a port of this machine again and again while nobody listens there, if it is one of those that the system
    gives to own ends: 5 of 240,000 tries were given that very one (Linux 6.18). A server that starts then finds it
    taken.
    """
    try:
        if connected.getsockname() != connected.getpeername():
            return None
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    except OSError:
        return None  # it is over already, as whoever reads from it will be told
    reason = "the connection came back to itself"
    return Unreachable(f"no server answers at {address}: {reason}", reason=reason)
