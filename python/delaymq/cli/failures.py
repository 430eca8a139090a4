# ruff: noqa: N818 - a name says what happened, as those of delaymq.errors do
"""Errors that only the command line raises. The library raises all others."""

from __future__ import annotations

from delaymq.errors import DelaymqError


class UsageError(DelaymqError):
    """The command line, the configuration or a line of the input is wrong; nothing was done."""


class NoOutput(DelaymqError):
    """Standard output is closed, so the result could not be printed; nothing was done."""
