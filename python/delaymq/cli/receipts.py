"""Receipts from the command line, or from standard input."""

from __future__ import annotations

from collections.abc import Iterator

from delaymq.cli.failures import UsageError
from delaymq.cli.streams import standard_input
from delaymq.errors import InvalidArgument
from delaymq.receipt import Receipt

__all__ = ["BATCH_RECEIPTS", "read_receipts"]

BATCH_RECEIPTS = 10_000
"""So many are asked for at once."""


def read_receipts(arguments: list[str]) -> tuple[list[str], list[Receipt]]:
    """The texts and the receipts that the arguments name.

    Raises:
        UsageError: One of them cannot be read; it says which.
    """
    texts = list(_texts(arguments))
    return [text for text, _ in texts], [_parsed(text, place) for text, place in texts]


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
