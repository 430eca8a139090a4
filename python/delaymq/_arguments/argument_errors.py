"""Errors about an argument: its name, what was expected, and what was found."""

from __future__ import annotations

from delaymq.errors import InvalidArgument, WrongType

__all__ = ["WHOLE_BITS_SHOWN", "refused", "shown", "wrong_type"]

WHOLE_BITS_SHOWN = 256


def wrong_type(argument: str, expected: str, found: object) -> WrongType:
    """The error for an argument of another type."""
    kind = type(found).__name__
    return WrongType(f"{argument}: expected {expected}, found {kind}", argument=argument, expected=expected, found=kind)


def refused(argument: str, expected: str, found: object) -> InvalidArgument:
    """The error for an argument of the right type with another value than expected."""
    return InvalidArgument(
        f"{argument}: expected {expected}, found {shown(found)}",
        argument=argument,
        expected=expected,
        found=shown(found),
    )


def shown(found: object) -> str:
    """A value as text, for an error. Python refuses to convert an int of more than 4,300 digits."""
    if isinstance(found, int) and found.bit_length() > WHOLE_BITS_SHOWN:
        return f"a whole number of {found.bit_length()} bits"
    return repr(found)
