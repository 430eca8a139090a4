"""Bulk loads: messages staged with `delaymq.loading` are added to a store, all of them or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delaymq import _core

if TYPE_CHECKING:
    pass

__all__ = ["Loaded", "check_job"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load.

    Attributes:
        first_sequence: The sequence of its first message; the others follow, run after run.
        count: The number of its messages.
        again: True if an earlier load of the job had stored the messages, and this one did nothing.
    """

    first_sequence: int
    count: int
    again: bool


def check_job(job: str) -> None:
    """Refuses an invalid job name, before anything is staged for it.

    Raises:
        WrongType, InvalidArgument: `job` is refused.
    """
    _core.load_request(job, [])
