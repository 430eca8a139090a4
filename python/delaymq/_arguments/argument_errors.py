"""Errors about an argument: its name, what was expected, and what was found."""

from __future__ import annotations

from collections.abc import Iterable

from delaymq.errors import InvalidArgument, WrongType

WHOLE_BITS_SHOWN = 256


def wrong_type(argument: str, expected: str, found: object) -> WrongType:
    """The error for an argument of another type."""
    kind = type(found).__name__
    return WrongType(f"{argument}: expected {expected}, found {kind}", argument=argument, expected=expected, found=kind)


def texts_of(argument: str, expected: str, wanted: object) -> list[str]:
    """The texts of a collection of texts.

    Raises:
        WrongType: It is no collection, a single text, or has something else than texts.
    """
    if isinstance(wanted, str | bytes | bytearray) or not isinstance(wanted, Iterable):
        raise wrong_type(argument, expected, wanted)
    texts = list(wanted)
    for text in texts:
        if not isinstance(text, str):
            raise wrong_type(argument, expected, text)
    return texts


def refused(argument: str, expected: str, found: object) -> InvalidArgument:
    """The error for an argument of the right type with another value than expected."""
    return unexpected(argument, expected, shown(found))


def unexpected(argument: str, expected: str, found: str, hint: str = "") -> InvalidArgument:
    """As `refused`, for what was found in words, with a hint at the end."""
    words = f"{argument}: expected {expected}, found {found}{hint}"
    return InvalidArgument(words, argument=argument, expected=expected, found=found)


def checked_int(
    argument: str, value: object, least: int, most: int | None, *, kind: str = "an int", expected: str | None = None
) -> int:
    """Checks that an argument is an int within bounds; `kind` and `expected` describe the type and the range.

    Raises:
        WrongType: It is not an int, or it is a bool.
        InvalidArgument: It is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(argument, kind, value)
    if value < least or (most is not None and value > most):
        raise refused(argument, expected or f"{least} to {most}", value)
    return value


def shown(found: object) -> str:
    """A value as text, for an error. Python refuses to convert an int of more than 4,300 digits."""
    if isinstance(found, int) and found.bit_length() > WHOLE_BITS_SHOWN:
        return f"a whole number of {found.bit_length()} bits"
    return repr(found)


def is_text(word: str) -> bool:
    """True if UTF-8 can encode it."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
