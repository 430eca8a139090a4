"""A store as the command line names it: by its folder, or by a server that has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faces import Served

PLACES = ("store", "server")

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
