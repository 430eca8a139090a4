"""The three standard streams, whatever the shell made of them: closed, in an encoding of few characters, or full."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import BinaryIO

from delaymq.cli.failures import NoOutput, UsageError

__all__ = ["abandon_output", "prepare", "require_output", "standard_input", "standard_input_is_a_terminal"]

ERRORS = "delaymq.escaped"
"""What a stream's encoding does not have is written as JSON escapes it, so that a line of JSON stays one."""

DESCRIPTORS = 3


def prepare() -> None:
    """Makes the streams such that printing cannot fail for what is printed."""
    for descriptor in range(DESCRIPTORS):
        try:
            os.fstat(descriptor)
        except OSError:
            # A file of the store must not get this number: what somebody prints would be written into it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process
    codecs.register_error(ERRORS, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def require_output() -> None:
    """Looks whether anybody can be told of what is done, before it is done.

    Raises:
        NoOutput: Standard output is closed.
    """
    if sys.stdout is None:
        raise NoOutput


def abandon_output() -> None:
    """Lets go of what was printed and cannot be written: the interpreter tries once more at its end, and complains."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def standard_input(name: str) -> BinaryIO:
    """The bytes of standard input.

    Args:
        name: The argument that asked for it.

    Raises:
        UsageError: It is closed.
    """
    if sys.stdin is None:
        raise UsageError(f"{name}: cannot be read: standard input is closed")
    return sys.stdin.buffer


def standard_input_is_a_terminal() -> bool:
    """True where somebody would have to type what is read."""
    return sys.stdin is not None and sys.stdin.isatty()


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs), error.end
