"""Arguments of the command line, with their units."""

from __future__ import annotations

import argparse
import re
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
    parts = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([a-z]+)", text)
    try:
        found = timedelta(seconds=float(parts[1]) * UNITS[parts[2]]) if parts else timedelta(0)
    except (KeyError, OverflowError):
        found = timedelta(0)
    if found <= timedelta(0):
        raise argparse.ArgumentTypeError(f"expected a duration with a unit (250ms, 10s, 30m, 12h, 7d), found {text!r}")
    return found
