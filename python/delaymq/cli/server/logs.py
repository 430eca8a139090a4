"""What a server tells of itself on standard error: one line for each event, for people or as JSON.

Names of peers may be in it, payloads and tokens never are. Control bytes are escaped, so that nobody
outside can begin a line or colour a terminal.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

__all__ = ["FORMATS", "JsonLines", "Lines", "event", "told_as"]

FORMATS = ("text", "json")
LOGGER = logging.getLogger("delaymq")
# C0, DEL and C1, and what some readers take for the end of a line.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


class Lines(logging.Formatter):
    """`delaymq: ` and the words."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return "delaymq: " + CONTROL.sub(_escape, record.getMessage())


class JsonLines(logging.Formatter):
    """One object a line: `time`, `level`, `event`, `message`, and what the event has beside."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "action", "other"),
            "message": record.getMessage(),
        }
        said |= getattr(record, "details", {})
        return json.dumps(said)  # which escapes all that is no plain ASCII


def event(level: int, action: str, text: str, **details: object) -> None:
    """Tells of an event; its details stand in the JSON alone."""
    LOGGER.log(level, "%s", text, extra={"action": action, "details": details})


@contextmanager
def told_as(log_format: str) -> Iterator[None]:
    """Everything from `info` on is told in this format, by the handlers that are there."""
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
