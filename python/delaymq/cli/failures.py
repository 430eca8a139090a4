# ruff: noqa: N818 - a name says what happened, as those of delaymq.errors do
"""What only the command line refuses; everything else is raised by the library."""

from __future__ import annotations

from delaymq.errors import DelaymqError

__all__ = ["NoOutput", "UsageError"]


class UsageError(DelaymqError):
    """The command line, the configuration or a line of the input is wrong; nothing was done."""


class NoOutput(DelaymqError):
    """Standard output is closed, so nobody would learn what was done; nothing was done."""
