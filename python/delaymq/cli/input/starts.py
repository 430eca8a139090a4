"""The option that says where a group begins."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from typing import cast

from delaymq.cli.input.arguments import CommandParser, moment_or_delay
from delaymq.errors import InvalidArgument
from delaymq.receipt import Receipt
from delaymq.starts import PublishedSince, Start

WORDS = {
    "earliest": "at the earliest message kept",
    "unfinished": "at the first unfinished message",
    "latest": "at the next message",
}
"""Where a group may begin, and how a verb says it."""

SHAPES = "earliest, unfinished, latest, 2h, 2030-12-31T18:00:00Z, published:2h, or a receipt"


def add_start(verb: CommandParser, about: str, *, required: bool = False) -> None:
    """Adds `--start`. Completions offer its words."""
    action = verb.add_argument(
        "--start",
        type=start,
        default=None if required else "unfinished",
        required=required,
        metavar="PLACE",
        help=f"{about}: {SHAPES}",
    )
    setattr(action, "words", tuple(WORDS))  # noqa: B010 - argparse's class has no such attribute


def start(text: str) -> Start:
    """Parses a word, a time or a duration before now, either of them after `published:`, or a receipt.

    Raises:
        argparse.ArgumentTypeError: The text is none of these.
    """
    if text in WORDS:
        return cast("Start", text)
    if text.startswith("published:"):
        return PublishedSince(_time(text.removeprefix("published:")))
    try:
        return Receipt.parse(text)
    except InvalidArgument:
        return _time(text)


def _time(text: str) -> datetime | timedelta:
    try:
        return moment_or_delay(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"expected {SHAPES}, found {text!r} ({error})") from None


def said(start: Start) -> str:
    """Where a group begins, in words."""
    if isinstance(start, str):
        return WORDS[start]
    if isinstance(start, PublishedSince):
        return f"at the first message published {_since(start.time)}"
    if isinstance(start, Receipt):
        return "at the message of the receipt"
    return f"at the first message that became ready {_since(start)}"


def _since(time: datetime | timedelta) -> str:
    return f"since {time}" if isinstance(time, datetime) else f"within the last {time}"
