"""The options of a message to publish: as arguments of the command line, and as names in a line of JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import (
    CommandParser,
    add_attributes,
    add_on_expiry,
    add_times,
    attributes_of,
    count,
    delay,
    moment,
    moment_or_delay,
)


def add_options(verb: CommandParser) -> None:
    """Adds every option of a message."""
    when = verb.add_mutually_exclusive_group()
    add_times(when)
    when.add_argument("--level", type=count, metavar="N", help="one of the 18 levels of RocketMQ, 1 (1s) to 18 (2h)")
    verb.add_argument("--jitter", type=delay, metavar="TIME", help="add a random part of this time to the due time")
    verb.add_argument(
        "--expires",
        type=moment_or_delay,
        metavar="TIME",
        help="the message is of use for so long after its due time (30m), or until then (2030-12-31T18:00:00Z)",
    )
    add_on_expiry(verb)
    add_attributes(verb)
    verb.add_argument("--message-id", metavar="TEXT", help="your own name for the message")
    verb.add_argument(
        "--key", metavar="TEXT", help="your own key for the message: at most one pending message of a subject has it"
    )
    verb.add_argument(
        "--if-exists",
        choices=("replace", "keep", "error"),
        help="what to do if a pending message has the key: cancel it, leave it, or fail (the default)",
    )
    verb.add_argument(
        "--deduplicate",
        action="store_true",
        default=None,
        help="store a message with this id once within ten minutes, however often it is published; "
        "without an id one is made, so that a client can send the message again after a lost "
        "answer; with --jsonl, for each message",
    )


def options_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that were given, by the names of `Publish`."""
    given = {name: getattr(chosen, name) for name in READERS if name not in GATHERED}
    given = {name: value for name, value in given.items() if value is not None}
    if chosen.tags:
        given["tags"] = tuple(chosen.tags)
    if attributes := attributes_of(chosen):
        given["attributes"] = attributes
    return given


GATHERED = ("tags", "attributes")
"""Options whose arguments may be given several times."""


def _parsed(read: Callable[[str], Any], value: object, place: str) -> Any:  # noqa: ANN401 - a duration or a time
    try:
        return read(value if isinstance(value, str) else json.dumps(value))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{place}: {error}") from None


def _reader(expected: str, is_valid: Callable[[Any], bool]) -> Callable[[object, str], Any]:
    """Returns a function that takes only such values."""

    def read(value: object, place: str) -> object:
        if not is_valid(value):
            raise UsageError(f"{place}: expected {expected}, found {json.dumps(value)}")
        return value

    return read


def _are_text(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)


WORD = _reader("text", lambda value: isinstance(value, str))
TEXTS = _reader("a list of text", lambda value: isinstance(value, list) and _are_text(value))
READERS: dict[str, Callable[[object, str], Any]] = {
    "delay": partial(_parsed, delay),
    "at": partial(_parsed, moment),
    "level": _reader("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "tags": lambda value, place: tuple(TEXTS(value, place)),
    "attributes": _reader("an object of text", lambda value: isinstance(value, dict) and _are_text(value.values())),
    "message_id": WORD,
    "key": WORD,
    "if_exists": WORD,
    "deduplicate": _reader("true or false", lambda value: isinstance(value, bool)),
    "jitter": partial(_parsed, delay),
    "expires": partial(_parsed, moment_or_delay),
    "on_expiry": WORD,
}
"""The function that reads the value of each option in a line of JSON."""
