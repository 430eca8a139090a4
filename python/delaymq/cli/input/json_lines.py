"""Messages as lines of JSON, which `publish --jsonl` reads and `consume --jsonl` writes."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import delay, moment, moment_or_delay
from delaymq.message import Message, Publish


def message_of(line: bytes, number: int, subject: str | None) -> Publish:
    """Returns the message of one line.

    Args:
        line: One JSON object.
        number: The number of the line in the input, for errors.
        subject: The subject of lines without one.

    Raises:
        UsageError: The line is not such an object, or a value in it is refused.
    """
    place = f"line {number}"
    said = _object(line, place)
    named = _text(said, "subject", place)
    if named is None and subject is None:
        raise UsageError(f"{place}: no subject: name one in the line or on the command line")
    given: dict[str, Any] = {
        name: read(said[name], f"{place}: {name}") for name, read in OPTIONAL.items() if said.get(name) is not None
    }
    return Publish(str(subject if named is None else named), _body(said, place), **given)


def _object(line: bytes, place: str) -> dict[str, object]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise UsageError(f"{place}: expected an object, found {type(said).__name__}")
    unknown = next((name for name in said if name not in READ_NAMES), None)
    if unknown is not None:
        raise UsageError(f"{place}: unknown name {unknown!r}; known are {', '.join(READ_NAMES)}")
    return said


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
OPTIONAL: dict[str, Callable[[object, str], Any]] = {
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
READ_NAMES = ("subject", "body", "body_base64", *OPTIONAL)
"""The names that a line may have. Any other name is refused, so that a typing error is not lost."""


def _text(said: Mapping[str, object], name: str, place: str) -> str | None:
    return None if said.get(name) is None else str(WORD(said[name], f"{place}: {name}"))


def _body(said: Mapping[str, object], place: str) -> bytes:
    text, encoded = _text(said, "body", place), _text(said, "body_base64", place)
    if (text is None) == (encoded is None):
        raise UsageError(f"{place}: expected either body or body_base64, found {'none' if text is None else 'both'}")
    if text is not None:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{place}: body: is not Unicode text: {error.reason}; use body_base64") from None
    try:
        return base64.b64decode(str(encoded), validate=True)
    except binascii.Error as error:
        raise UsageError(f"{place}: body_base64: is not base64: {error}") from None


def line_of(message: Message) -> str:
    """Returns a message as one line, as `consume --jsonl` prints it."""
    said: dict[str, Any] = {"subject": message.subject, **body_of(message.body)}
    said["due"] = message.due.isoformat()
    said["published"] = message.published.isoformat()
    said["attempt"] = message.attempt
    said["redelivered"] = message.redelivered
    said["sequence"] = message.sequence
    said["message_id"] = message.message_id
    said["tags"] = list(message.tags)
    said["attributes"] = message.attributes
    said["receipt"] = str(message.receipt)
    return json.dumps(said, ensure_ascii=False)


def body_of(body: bytes) -> dict[str, str]:
    """Returns the body as text if it is UTF-8, and otherwise in base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
