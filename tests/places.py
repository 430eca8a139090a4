"""A store as the command line names it: by its folder, or by a server that has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faces import Served

PLACES = ("store", "server")

RECEIPT = "dmq1-ATBiO3gf4xR9549gXm-3wpgBAAAAAwAAAAAAAADXc9b_oQEBAAAAAQAAAFQhXv3D"  # of a store that is gone

ON_A_STORE: dict[str, tuple[str, ...]] = {
    "publish": ("a", "x"),
    "consume": ("a", "--group", "g", "--timeout", "1ms"),
    "cancel": (RECEIPT,),
    "move": (RECEIPT, "--delay", "1s"),
    "look-up": (RECEIPT,),
    "pending": (),
    "forecast": (),
    "recur add": ("a", "x", "--name", "n", "--every", "1h"),
    "recur end": ("a", "n"),
    "recur list": (),
    "groups list": (),
    "groups start": ("a", "g"),
    "groups reset": ("a", "g", "--start", "latest"),
    "groups remove": ("a", "g"),
    "groups end-consumer": ("a", "g", "host@@one"),
    "dead list": ("a", "g"),
    "dead redrive": ("a", "g"),
    "status": (),
    "clock status": (),
    "clock accept": ("--ahead-ms", "3600000"),
    "inspect": (),
    "verify": (),
    "salvage": (),
    "simulate": ("--rate", "1", "--to", "2100-01-01T00:00:00Z"),
    "spark forecast": (),
    "spark audit": (),
    "spark archive": ("--parquet", "archive"),
}
"""Each verb that works on a store, and what it needs beside its place."""

ON_FILES = ("inspect", "verify", "salvage", "simulate", "spark forecast", "spark audit", "spark archive")
"""Those that read files, and so ask no server."""

SERVED = {verb: arguments for verb, arguments in ON_A_STORE.items() if verb not in ON_FILES}
"""Those that ask a server, too."""

Place = tuple[str, str]
"""Two words of a command line."""


@contextmanager
def place_over(folder: Path, name: str) -> Iterator[Place]:
    """A place of one of `PLACES`; a server of this process serves as long as the block lasts."""
    if name == "store":
        yield "--store", str(folder)
        return
    served = Served(folder)
    try:
        yield "--server", served.url
    finally:
        served.close()
