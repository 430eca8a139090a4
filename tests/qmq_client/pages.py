"""Plain HTTP, as much of it as a client of QMQ speaks."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlencode

from qmq_client.connection import PATIENCE_SECONDS

META_ADDRESS = "/meta/address"


@dataclass(frozen=True)
class Page:
    """What came back."""

    status: int
    headers: dict[str, str]
    content: str


def page(address: str, path: str, **query: str) -> Page:
    """GET, on a connection of its own."""
    whole = f"{path}?{urlencode(query)}" if query else path
    asked = f"GET {whole} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    return read_page(exchanged(address, asked.encode("ascii")))


def exchanged(address: str, asked: bytes) -> bytes:
    """What is said until the connection ends."""
    host, port = address.split(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(asked)
        while piece := connection.recv(1 << 16):
            said += piece
    return said


def read_page(said: bytes) -> Page:
    head, _, content = said.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Page(int(first.split(" ")[1]), headers, content.decode())
