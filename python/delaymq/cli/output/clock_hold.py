"""A hold of dispatch, in one line, with the command that ends it for this store."""

from __future__ import annotations

import shlex

from delaymq.status import ClockStatus

COMMAND = "delaymq clock accept --ahead-ms {}"


def hold_line(found: ClockStatus, place: str) -> str | None:
    """Returns why dispatch is held and what ends the hold, or None if it is not held.

    Args:
        found: The clock of the store.
        place: The options that name the store on a command line.
    """
    if found.words is None:
        return None
    command = COMMAND.format(found.ahead_ms)
    return found.words.replace(command, f"{command} {place}")


def place_of(store: object, server: str | None) -> str:
    """Returns the options that name a store in a folder, or behind a server."""
    return f"--server {shlex.quote(server)}" if server is not None else f"--store {shlex.quote(str(store))}"
