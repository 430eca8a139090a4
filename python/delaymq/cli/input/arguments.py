"""Arguments of the command line with their units, and the function that adds a verb."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeAlias

from delaymq.cli.failures import UsageError

Verbs: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001 - argparse names it nowhere else

UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
"""Milliseconds of each unit, the largest first."""

PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z]+)")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
SHAPES = "250ms, 10s, 30m, 1h30m, 7d"


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, with a hint where to read on."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with the exit code of a wrong command line."""
        self.exit(2, f"delaymq: {message}; see `{self.prog} --help`\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401 - argparse's
        """Parses as argparse does, but lets the verb itself refuse unknown arguments.

        argparse lets the whole command refuse them, and the help of the command has none of the verb's options.
        """
        found, others = super().parse_known_args(args, namespace)
        if others and self._subparsers is None:
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return found, others

    def option_of(self, argument: str) -> str:
        """Returns how the user types an argument of the library, or its own name if it is no option."""
        options = (action.option_strings for action in self._actions if action.dest == argument)
        return next((strings[-1] for strings in options if strings), argument)


def add_verb(
    verbs: Verbs,
    name: str,
    run: Callable[[argparse.Namespace], int] | None,
    *,
    summary: str,
    details: str = "",
    examples: tuple[str, ...] = (),
) -> CommandParser:
    """Adds a verb whose `--help` ends with examples, and returns its parser."""
    shown = "\n".join(f"  {example}" for example in examples)
    verb = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.{' ' if details else ''}{details}",
        epilog=f"examples:\n{shown}" if shown else None,
        formatter_class=_Formatter,
    )
    if run is not None:
        verb.set_defaults(run=run, option_of=verb.option_of)
    return verb


def add_times(when: argparse._MutuallyExclusiveGroup) -> None:
    """Adds the options for a due time."""
    when.add_argument("--delay", type=delay, metavar="TIME", help="delay from now: 250ms, 10s, 1h30m, 7d")
    when.add_argument("--at", type=moment, metavar="TIME", help="time with its zone: 2030-12-31T18:00:00Z")


def add_attributes(verb: CommandParser) -> None:
    """Adds the option for tags, and the option that `attributes_of` reads."""
    verb.add_argument("--tag", action="append", default=[], dest="tags", metavar="TEXT", help="may be repeated")
    verb.add_argument(
        "--attribute", action="append", default=[], dest="attributes", metavar="KEY=VALUE", help="may be repeated"
    )


def attributes_of(chosen: argparse.Namespace) -> dict[str, str]:
    """Returns the attributes of a message.

    Raises:
        UsageError: An attribute has no name.
    """
    attributes = {}
    for pair in chosen.attributes:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--attribute: expected key=value, found {pair!r}")
        attributes[name] = value
    return attributes


class _Formatter(argparse.HelpFormatter):
    """Wraps the description to the width, and leaves the examples unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


def count(text: str) -> int:
    """Parses a whole number above zero. `_` may group its digits.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above zero, found {text!r}")
    return number


def delay(text: str) -> timedelta:
    """Parses a duration with its units, the largest first: 250ms, 10s, 1h30m, 7d, 0s.

    Raises:
        argparse.ArgumentTypeError: The text is not a duration, or has no unit.
    """
    if NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text} has no unit: write {text}s, {text}m, {text}h or {text}d")
    parts = PART.findall(text)
    units = [unit for _, unit in parts]
    ordered = [unit for unit in UNITS if unit in units]
    if not parts or "".join(number + unit for number, unit in parts) != text or units != ordered:
        raise argparse.ArgumentTypeError(f"expected a duration with units ({SHAPES}), found {text!r}")
    try:
        return sum((timedelta(milliseconds=float(number) * UNITS[unit]) for number, unit in parts), timedelta(0))
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text} is longer than a duration can be") from None


def duration(text: str) -> timedelta:
    """Parses a duration as `delay` does, and refuses zero.

    Raises:
        argparse.ArgumentTypeError: The text is not such a duration.
    """
    found = delay(text)
    if found <= timedelta(0):
        raise argparse.ArgumentTypeError(f"expected a duration above zero ({SHAPES}), found {text!r}")
    return found


def moment_or_delay(text: str) -> timedelta | datetime:
    """Parses a duration as `delay` does, or a time as `moment` does.

    Raises:
        argparse.ArgumentTypeError: The text is neither.
    """
    return moment(text) if "-" in text or "T" in text else delay(text)


def add_on_expiry(verb: CommandParser) -> None:
    """Adds the option for what happens to messages that expire."""
    verb.add_argument(
        "--on-expiry",
        choices=("drop", "dead_letter"),
        help="what happens to an expired message: it is finished (the default), or becomes a dead letter",
    )


def moment(text: str) -> datetime:
    """Parses a time in ISO 8601 with its zone.

    Raises:
        argparse.ArgumentTypeError: The text is not a time, or has no zone.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        shape = "2030-12-31T18:00:00Z or 2030-12-31T18:00:00+02:00"
        raise argparse.ArgumentTypeError(f"expected a time such as {shape}, found {text!r}") from None
    if found.utcoffset() is None:
        raise argparse.ArgumentTypeError(f"{text} has no time zone: end it with Z or an offset such as +02:00")
    return found
