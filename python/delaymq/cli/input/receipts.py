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
"""So many are asked for at once."""


class Given(NamedTuple):
    """A receipt, and where it stands."""

    text: str
    place: str
    receipt: Receipt


def read_receipts(arguments: list[str]) -> list[Given]:
    """The receipts that the arguments name.

    Raises:
        UsageError: One of them cannot be read; it says which.
    """
    return [Given(text, place, _parsed(text, place)) for text, place in list(_texts(arguments))]


def parts_of(given: list[Given]) -> Iterator[list[Given]]:
    """As many at a time as are asked for at once."""
    for start in range(0, len(given), BATCH_RECEIPTS):
        yield given[start : start + BATCH_RECEIPTS]


@contextmanager
def asked_of(part: list[Given]) -> Iterator[list[Receipt]]:
    """The receipts of a part; where one of several is refused, the error says which."""
    try:
        yield [one.receipt for one in part]
    except InvalidArgument as error:
        if error.index is None or len(part) == 1:
            raise
        raise type(error)(f"{part[error.index].place}: {error}", **vars(error)) from None


def _texts(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Each receipt's text and where it stands."""
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
