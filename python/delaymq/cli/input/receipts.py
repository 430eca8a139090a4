"""Receipts from the command line, or from standard input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from delaymq.cli.failures import UsageError
from delaymq.cli.output.streams import standard_input
from delaymq.errors import InvalidArgument
from delaymq.receipt import Receipt

__all__ = ["Given", "asked_of", "parts_of", "read_receipts"]

BATCH_RECEIPTS = 10_000
"""The largest number of receipts in one request."""


class Given(NamedTuple):
    """A receipt, and the argument or line that it comes from."""

    text: str
    place: str
    receipt: Receipt


def read_receipts(arguments: list[str]) -> list[Given]:
    """Yields the receipts that the arguments name.

    Raises:
        UsageError: A receipt cannot be read; the error names it.
    """
    return [Given(text, place, _parsed(text, place)) for text, place in list(_texts(arguments))]


def parts_of(given: list[Given]) -> Iterator[list[Given]]:
    """Yields receipts in the pieces in which they are sent."""
    for start in range(0, len(given), BATCH_RECEIPTS):
        yield given[start : start + BATCH_RECEIPTS]


@contextmanager
def asked_of(part: list[Given]) -> Iterator[list[Receipt]]:
    """Reads the receipts of a piece. If one of several is refused, the error names it."""
    try:
        yield [one.receipt for one in part]
    except InvalidArgument as error:
        if error.index is None or len(part) == 1:
            raise
        raise type(error)(f"{part[error.index].place}: {error}", **vars(error)) from None


def _texts(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yields the text of each receipt, and the argument or line that it comes from."""
    for place, argument in enumerate(arguments, 1):
        if argument != "-":
            yield argument, f"receipt {place}"
            continue
        for number, line in enumerate(standard_input("RECEIPT"), 1):
            if text := line.decode(errors="backslashreplace").strip():
                yield text, f"line {number}"


def _parsed(text: str, place: str) -> Receipt:
    try:
        return Receipt.parse(text)
    except InvalidArgument as error:
        raise UsageError(f"{place}: {error}") from error
