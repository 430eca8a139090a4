"""Messages that the command line names, by their receipts or by their keys."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from delaymq.cli.failures import UsageError
from delaymq.cli.output.streams import standard_input
from delaymq.errors import InvalidArgument
from delaymq.receipt import Receipt

BATCH_RECEIPTS = 10_000
"""The largest number of receipts in one request."""


class Named(NamedTuple):
    """A subject, its keys, and the argument or line that each key comes from."""

    subject: str
    keys: list[str]
    places: list[str]


class Given(NamedTuple):
    """A receipt, and the argument or line that it comes from."""

    text: str
    place: str
    receipt: Receipt


def add_names(verb: argparse.ArgumentParser) -> None:
    """Adds arguments for receipts, or for a subject and a key."""
    verb.add_argument(
        "receipts", nargs="*", metavar="RECEIPT", help="receipts that publish printed; - reads standard input"
    )
    verb.add_argument("--subject", metavar="SUBJECT", help="subject of the messages that --key names")
    words = "instead of receipts: the pending message with this key; may be repeated; - reads standard input"
    verb.add_argument("--key", action="append", metavar="TEXT", help=words)


def add_id(verb: argparse.ArgumentParser) -> None:
    """Adds the option that gives a command by key an id."""
    words = "with --key: a repeated command with the same id gets the first answer"
    verb.add_argument("--id", dest="command_id", metavar="TEXT", help=words)


def named_keys(chosen: argparse.Namespace) -> Named | None:
    """Returns the named subject and keys, or None if receipts were named.

    Raises:
        UsageError: Neither was named, or both were.
    """
    if chosen.key is None and chosen.subject is None:
        if not chosen.receipts:
            raise UsageError("expected RECEIPT (- reads them from standard input), or --subject and --key")
        if getattr(chosen, "command_id", None) is not None:
            raise UsageError("--id goes with --key: a receipt needs none")
        return None
    if chosen.key is None or chosen.subject is None:
        raise UsageError("--subject and --key go together: a key is one of a subject")
    if chosen.receipts:
        raise UsageError("expected either receipts, or --subject and --key")
    given = list(_texts(chosen.key, "--key", "key"))
    return Named(chosen.subject, [key for key, _ in given], [place for _, place in given])


def read_receipts(arguments: list[str]) -> list[Given]:
    """Returns the receipts that the arguments name.

    Raises:
        UsageError: A receipt cannot be read; the error names it.
    """
    return [Given(text, place, _parsed(text, place)) for text, place in list(_texts(arguments, "RECEIPT", "receipt"))]


def parts_of(given: list[Given]) -> Iterator[list[Given]]:
    """Yields receipts in the pieces in which they are sent."""
    for start in range(0, len(given), BATCH_RECEIPTS):
        yield given[start : start + BATCH_RECEIPTS]


@contextmanager
def naming(places: Sequence[str]) -> Iterator[None]:
    """Names the place of the receipt or key that is refused, if it is one of several."""
    try:
        yield
    except InvalidArgument as error:
        if error.index is None or len(places) == 1:
            raise
        raise type(error)(f"{places[error.index]}: {error}", **vars(error)) from None


def line_of(named: Mapping[str, str], outcome: str, more: Mapping[str, str | None], *, as_json: bool) -> str:
    """Returns the result for a message in one line: `named` has its receipt, or its subject and key."""
    if as_json:
        return json.dumps({**named, "outcome": outcome, **more}, ensure_ascii=False)
    return f"{outcome}  {next((text for text in more.values() if text), list(named.values())[-1])}"


def _texts(arguments: list[str], source: str, what: str) -> Iterator[tuple[str, str]]:
    """Yields each text and the argument or line that it comes from; `source` names the argument."""
    for place, argument in enumerate(arguments, 1):
        if argument != "-":
            yield argument, f"{what} {place}"
            continue
        for number, line in enumerate(standard_input(source), 1):
            if text := line.decode(errors="backslashreplace").strip():
                yield text, f"line {number}"


def _parsed(text: str, place: str) -> Receipt:
    try:
        return Receipt.parse(text)
    except InvalidArgument as error:
        raise UsageError(f"{place}: {error}") from error
