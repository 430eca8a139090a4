"""What the verbs of groups and dead letters ask of a store, by the names of the public face."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol, cast

from delaymq.cli.opening import open_store, settings_of

__all__ = ["Administered", "DeadLetter", "administered"]


class DeadLetter(Protocol):
    """A message that a consumer gave up."""

    @property
    def number(self) -> int:
        """Its number among the dead letters of its group."""

    @property
    def body(self) -> bytes:
        """The bytes that were published."""

    @property
    def damage(self) -> str | None:
        """What cannot be read of it, or None; such a field is empty."""

    @property
    def reason(self) -> str:
        """Why it was given up."""

    @property
    def attempt(self) -> int:
        """How often it had been handed over."""

    @property
    def died(self) -> datetime:
        """When it was given up, UTC."""


class Administered(Protocol):
    """The store's own verbs for groups and dead letters."""

    def start_group(self, subject: str, group: str, start: str) -> object:
        """Makes a group; an error where it is there."""

    def reset_group(self, subject: str, group: str, start: str) -> object:
        """Lets a group begin again; refused while it has consumers."""

    def remove_group(self, subject: str, group: str) -> object:
        """Removes a group; refused while it has consumers."""

    def dead_letters(self, subject: str, group: str, limit: int) -> Sequence[DeadLetter]:
        """The dead letters of a group, the oldest first."""

    def redrive(self, subject: str, group: str, limit: int | None) -> int:
        """Moves dead letters back to their group."""


@contextmanager
def administered(chosen: argparse.Namespace) -> Iterator[Administered]:
    """The store that the command line names, open."""
    with open_store(chosen, settings_of(chosen)) as store:
        yield cast("Administered", store)
