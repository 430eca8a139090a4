"""The `delaymq` command, with one module for each verb. `exit_codes` lists its exit codes."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType, ModuleType

from delaymq import __version__
from delaymq.cli.exit_codes import Exit, code_of
from delaymq.cli.input.arguments import CommandParser
from delaymq.cli.output.streams import abandon_output, prepare, require_output
from delaymq.cli.server.logs import Lines
from delaymq.errors import DelaymqError

VERBS = (
    "serve",
    "publish",
    "consume",
    "cancel",
    "look-up",
    "pending",
    "forecast",
    "move",
    "recur",
    "groups",
    "dead",
    "status",
    "clock",
    "cluster",
    "inspect",
    "verify",
    "salvage",
    "simulate",
    "spark",
    "token",
    "config",
    "completion",
    "bench",
    "demo",
)


def parser(*names: str) -> CommandParser:
    """Returns the parser of some verbs, or of the whole command line. Only the modules of these verbs are imported."""
    whole = CommandParser(
        prog="delaymq",
        description="A durable delay queue: it stores messages, and delivers each message when it is due.",
        epilog="`delaymq VERB --help` says more and has examples.",
    )
    whole.add_argument("--version", action="version", version=f"delaymq {__version__}")
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=CommandParser)
    for name in names or VERBS:
        module_of(name).add_to(verbs)
    return whole


def module_of(name: str) -> ModuleType:
    """Imports the module of a verb."""
    folder = "delaymq.cli" if name == "spark" else "delaymq.cli.verbs"
    return import_module(f"{folder}.{name.replace('-', '_')}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code. Text for people goes to standard error."""
    prepare()
    # Ctrl-C may also come while the handlers of signals are set, and set back.
    try:
        with _reports_to_standard_error(), _ended_by_sigterm(is_process=arguments is None):
            return _run(sys.argv[1:] if arguments is None else list(arguments))
    except _Terminated:
        return Exit.TERMINATED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _run(words: list[str]) -> int:
    chosen = argparse.Namespace()
    try:
        # The other verbs would take two thirds of the time until the command starts.
        chosen = parser(*(name for name in words[:1] if name in VERBS)).parse_args(words)
        require_output()
        code = int(chosen.run(chosen))
        sys.stdout.flush()
    except DelaymqError as error:
        place = f"{error.store}: " if error.store else ""
        return _failed(f"{place}{_as_typed(error, chosen)}", code_of(error))
    except BrokenPipeError:
        abandon_output()
        return Exit.PIPE
    except OSError as error:
        abandon_output()
        return _failed(str(error), Exit.STORE)
    return code


def _as_typed(error: DelaymqError, chosen: argparse.Namespace) -> str:
    """Returns the message of an error, with the argument named as the user typed it."""
    words, argument = str(error), error.argument
    if argument is None or "option_of" not in chosen or not words.startswith(f"{argument}: "):
        return words
    return str(chosen.option_of(argument)) + words.removeprefix(argument)


def _failed(words: str, code: Exit) -> int:
    print(f"delaymq: {' '.join(words.split())}", file=sys.stderr)
    return code


class _Terminated(KeyboardInterrupt):
    """SIGTERM arrived. It is handled as Ctrl-C, with another exit code."""


@contextmanager
def _ended_by_sigterm(*, is_process: bool) -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    before = {signal.SIGINT: signal.getsignal(signal.SIGINT), signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # A signal that a stopping server ignores is ignored by the process until it has ended.
            if not is_process or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


@contextmanager
def _reports_to_standard_error() -> Iterator[None]:
    """Prints a line for each report of the store, such as a repaired tail or a voided message."""
    logger = logging.getLogger("delaymq")
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
