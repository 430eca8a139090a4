"""The errors that name an argument, what it should have been, and what it was."""

from __future__ import annotations

from delaymq.errors import InvalidArgument, WrongType

__all__ = ["WHOLE_BITS_SHOWN", "refused", "shown", "wrong_type"]

WHOLE_BITS_SHOWN = 256


def wrong_type(argument: str, expected: str, found: object) -> WrongType:
    """An argument that is of another type."""
    kind = type(found).__name__
    return WrongType(f"{argument}: expected {expected}, found {kind}", argument=argument, expected=expected, found=kind)


def refused(argument: str, expected: str, found: object) -> InvalidArgument:
    """An argument of the right type that is none of what is expected."""
    return InvalidArgument(
        f"{argument}: expected {expected}, found {shown(found)}",
        argument=argument,
        expected=expected,
        found=shown(found),
    )


def shown(found: object) -> str:
    """What was found, in an error. Python refuses to write a whole number of more than 4,300 digits."""
    if isinstance(found, int) and found.bit_length() > WHOLE_BITS_SHOWN:
        return f"a whole number of {found.bit_length()} bits"
    return repr(found)
