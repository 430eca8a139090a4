"""Arguments of the command line, with their units."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse names it nowhere else

__all__ = ["count", "duration"]

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def count(text: str) -> int:
    """A whole number above zero; `_` may group its digits.

    Raises:
        argparse.ArgumentTypeError: It is not one.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above zero, found {text!r}")
    return number


def duration(text: str) -> timedelta:
    """A duration with its unit: 250ms, 10s, 30m, 12h, 7d.

    Raises:
        argparse.ArgumentTypeError: It is not one.
    """
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        found = timedelta(seconds=float(digits) * UNITS[text[len(digits) :]])
    except (ValueError, KeyError, OverflowError):
        found = timedelta(0)
    if found <= timedelta(0):
        raise argparse.ArgumentTypeError(f"expected a duration with a unit (250ms, 10s, 30m, 12h, 7d), found {text!r}")
    return found
