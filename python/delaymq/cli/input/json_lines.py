"""Messages as lines of JSON, which `publish --jsonl` reads and `consume --jsonl` writes."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import delay, moment
from delaymq.message import Message, Publish

__all__ = ["READ_NAMES", "line_of", "message_of"]

Kind = TypeVar("Kind")


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


def _delay(value: object, place: str) -> timedelta:
    return _parsed(delay, value, place)


def _at(value: object, place: str) -> datetime:
    return _parsed(moment, value, place)


def _parsed(read: Callable[[str], Kind], value: object, place: str) -> Kind:
    try:
        return read(value if isinstance(value, str) else json.dumps(value))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{place}: {error}") from None


def _level(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{place}: expected a whole number, found {json.dumps(value)}")
    return value


def _tags(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise UsageError(f"{place}: expected a list of text, found {json.dumps(value)}")
    return tuple(value)


def _attributes(value: object, place: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise UsageError(f"{place}: expected an object of text, found {json.dumps(value)}")
    return dict(value)


def _word(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{place}: expected text, found {json.dumps(value)}")
    return value


def _switch(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{place}: expected true or false, found {json.dumps(value)}")
    return value


OPTIONAL: dict[str, Callable[[object, str], Any]] = {
    "delay": _delay,
    "at": _at,
    "level": _level,
    "tags": _tags,
    "attributes": _attributes,
    "message_id": _word,
    "key": _word,
    "if_exists": _word,
    "deduplicate": _switch,
    "jitter": _delay,
}
READ_NAMES = ("subject", "body", "body_base64", *OPTIONAL)
"""The names that a line may have. Any other name is refused, so that a typing error is not lost."""


def _text(said: Mapping[str, object], name: str, place: str) -> str | None:
    value = said.get(name)
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"{place}: {name}: expected text, found {json.dumps(value)}")


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
