"""Messages that the command line names by their keys."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from delaymq.cli.failures import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Mapping

__all__ = ["add_id", "add_names", "line_of_key", "named_key"]


def add_names(verb: ArgumentParser) -> None:
    """Lets a verb take receipts, or a subject and a key."""
    verb.add_argument("receipts", nargs="*", metavar="RECEIPT", help="what publish printed; - reads standard input")
    verb.add_argument("--subject", metavar="SUBJECT", help="of the message that --key names")
    verb.add_argument("--key", metavar="TEXT", help="instead of receipts: the pending message that has this key")


def add_id(verb: ArgumentParser) -> None:
    """Lets a command by a key have an id."""
    words = "with --key: the same command again, under the same id, is answered as the first time"
    verb.add_argument("--id", dest="command_id", metavar="TEXT", help=words)


def named_key(chosen: argparse.Namespace) -> tuple[str, str] | None:
    """The subject and the key that were named; None where receipts were.

    Raises:
        UsageError: Neither was, or both.
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
    return chosen.subject, chosen.key


def line_of_key(named: tuple[str, str], outcome: str, more: Mapping[str, str | None], *, as_json: bool) -> str:
    """What was found under a key, in one line."""
    if as_json:
        return json.dumps({"subject": named[0], "key": named[1], "outcome": outcome, **more}, ensure_ascii=False)
    return f"{outcome}  {next((text for text in more.values() if text), named[1])}"
