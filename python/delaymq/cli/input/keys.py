"""Messages that the command line names by their keys."""

from __future__ import annotations

import argparse
import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from delaymq.cli.failures import UsageError
from delaymq.cli.output.streams import standard_input
from delaymq.errors import InvalidArgument

__all__ = ["Named", "add_id", "add_names", "asked_of_keys", "line_of_key", "named_keys"]


class Named(NamedTuple):
    """A subject, its keys, and the argument or line that each key comes from."""

    subject: str
    keys: list[str]
    places: list[str]


def add_names(verb: ArgumentParser) -> None:
    """Adds arguments for receipts, or for a subject and a key."""
    verb.add_argument(
        "receipts", nargs="*", metavar="RECEIPT", help="receipts that publish printed; - reads standard input"
    )
    verb.add_argument("--subject", metavar="SUBJECT", help="subject of the messages that --key names")
    words = "instead of receipts: the pending message with this key; may be repeated; - reads standard input"
    verb.add_argument("--key", action="append", metavar="TEXT", help=words)


def add_id(verb: ArgumentParser) -> None:
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
    given = list(_texts(chosen.key))
    return Named(chosen.subject, [key for key, _ in given], [place for _, place in given])


@contextmanager
def asked_of_keys(named: Named) -> Iterator[list[str]]:
    """Checks the keys. If one of several keys is refused, the error names it."""
    try:
        yield named.keys
    except InvalidArgument as error:
        if error.index is None or len(named.keys) == 1:
            raise
        raise type(error)(f"{named.places[error.index]}: {error}", **vars(error)) from None


def line_of_key(subject: str, key: str, outcome: str, more: Mapping[str, str | None], *, as_json: bool) -> str:
    """Returns the result for a key, in one line."""
    if as_json:
        return json.dumps({"subject": subject, "key": key, "outcome": outcome, **more}, ensure_ascii=False)
    return f"{outcome}  {next((text for text in more.values() if text), key)}"


def _texts(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each key and the argument or line that it comes from."""
    for place, argument in enumerate(arguments, 1):
        if argument != "-":
            yield argument, f"key {place}"
            continue
        for number, line in enumerate(standard_input("--key"), 1):
            if text := line.decode(errors="backslashreplace").strip():
                yield text, f"line {number}"
