"""Messages as lines of JSON, which `publish --jsonl` reads and `consume --jsonl` writes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from delaymq.cli.failures import UsageError
from delaymq.cli.input.publish_options import READERS, WORD
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
        name: read(said[name], f"{place}: {name}") for name, read in READERS.items() if said.get(name) is not None
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


READ_NAMES = ("subject", "body", "body_base64", *READERS)
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
