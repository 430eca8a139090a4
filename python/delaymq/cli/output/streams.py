"""The three standard streams, in any state that the shell left: closed, full, or with an encoding of few characters."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import BinaryIO

from delaymq.cli.failures import NoOutput, UsageError

ERRORS = "delaymq.escaped"
"""Writes characters that a stream's encoding lacks with the escapes of JSON, so that a line of JSON stays valid."""

DESCRIPTORS = 3


def prepare() -> None:
    """Prepares the streams so that printing cannot fail because of a character."""
    for descriptor in range(DESCRIPTORS):
        try:
            os.fstat(descriptor)
        except OSError:
            # A file of the store must not get this number: output would be written into it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process
    codecs.register_error(ERRORS, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def require_output() -> None:
    """Checks that the result can be printed, before anything is done.

    Raises:
        NoOutput: Standard output is closed.
    """
    if sys.stdout is None:
        raise NoOutput


def abandon_output() -> None:
    """Discards output that cannot be written. Otherwise the interpreter tries again at its end, and complains."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def standard_input(name: str) -> BinaryIO:
    """Returns standard input as bytes.

    Args:
        name: The argument that reads it.

    Raises:
        UsageError: It is closed.
    """
    if sys.stdin is None:
        raise UsageError(f"{name}: cannot be read: standard input is closed")
    return sys.stdin.buffer


def standard_input_is_a_terminal() -> bool:
    """Returns True if a person would have to type the input."""
    return sys.stdin is not None and sys.stdin.isatty()


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs), error.end
