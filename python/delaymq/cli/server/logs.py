"""The log of a server on standard error: one line for each event, for people or as JSON.

Lines may have names of peers, and never have payloads or tokens. Control bytes are escaped, so that a peer cannot
begin a line or colour a terminal.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

FORMATS = ("text", "json")
LOGGER = logging.getLogger("delaymq")
# C0, DEL and C1, and characters that some readers take for the end of a line.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


class Lines(logging.Formatter):
    """Formats a record as `delaymq: ` and the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        return "delaymq: " + CONTROL.sub(_escape, record.getMessage())


class JsonLines(logging.Formatter):
    """Formats a record as one object on a line: `time`, `level`, `event`, `message`, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "action", "other"),
            "message": record.getMessage(),
        }
        said |= getattr(record, "details", {})
        return json.dumps(said)  # this escapes everything outside plain ASCII


def event(level: int, action: str, text: str, **details: object) -> None:
    """Logs an event. Only JSON has its fields."""
    LOGGER.log(level, "%s", text, extra={"action": action, "details": details})


def log_notices(notices: list[tuple[str, str, str, str, str, int]], unlisted: int) -> None:
    """Logs what a server noticed about its peers."""
    for level, action, text, address, detail, count in notices:
        words = f"{address}: {text}{f' ({detail})' if detail else ''}{f', {count} times' if count > 1 else ''}"
        number = logging.WARNING if level == "warning" else logging.INFO
        event(number, action, words, address=address, detail=detail, count=count)
    if unlisted:
        event(logging.WARNING, "unlisted", f"{unlisted} more things of other peers are not listed", count=unlisted)


@contextmanager
def told_as(log_format: str) -> Iterator[None]:
    """Logs everything from `info` on in this format, with the handlers that are there."""
    before = [(handler, handler.formatter) for handler in LOGGER.handlers]
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    for handler, _ in before:
        handler.setFormatter(JsonLines() if log_format == "json" else Lines())
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        for handler, formatter in before:
            handler.setFormatter(formatter)
