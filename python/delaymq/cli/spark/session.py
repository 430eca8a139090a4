"""Shared parts of `delaymq spark`: the session, and errors of its tasks."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delaymq import errors
from delaymq.cli.failures import UsageError
from delaymq.cli.input.stores import add_files
from delaymq.cli.output.terminal import count_words
from delaymq.errors import DelaymqError, StoreError

STRETCHES_SHOWN = 5

RAISED = re.compile(r"delaymq\.errors\.(?P<kind>\w+): (?P<words>[^\n]*)")


def add_running(verb: argparse.ArgumentParser, json_help: str) -> None:
    """Adds the options of the verbs that read the files of one store."""
    add_master(verb)
    verb.add_argument("--json", action="store_true", help=json_help)
    add_files(verb, "give --store DIR, which may be open meanwhile")


def add_snapshot(verb: argparse.ArgumentParser) -> None:
    """Adds the option that names a snapshot."""
    verb.add_argument(
        "--snapshot",
        metavar="NAME",
        help="the store as of a snapshot that is kept, by its name (default: now)",
    )


def add_master(verb: argparse.ArgumentParser) -> None:
    """Adds the option that names the master."""
    verb.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where to run (default: all cores here): a master of Spark, or sc://HOST:PORT for Spark Connect",
    )


def new_folder(option: str, given: str | None) -> str | None:
    """Returns the absolute path of a new folder.

    Raises:
        UsageError: The folder exists.
    """
    if given is None:
        return None
    if Path(given).exists():
        raise UsageError(f"{option}: {given} is there already, and nothing is written over")
    return str(Path(given).absolute())


def stretches(found: Sequence[tuple[int, int]]) -> str:
    """Returns sequences in words: ranges from a first one to the one behind the last. Long lists are cut."""
    words = ", ".join(f"{first} to {end - 1}" for first, end in found[:STRETCHES_SHOWN])
    more = found[STRETCHES_SHOWN:]
    if not more:
        return words
    others = count_words(len(more), "more stretch", "more stretches")
    sequences = sum(end - first for first, end in more)
    return f"{words} and {others}, {sequences:,} in all"


@contextmanager
def session(master: str) -> Iterator[Any]:
    """Returns a session of this command, which logs nothing itself."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    from delaymq.spark.session import session_at, silenced  # noqa: PLC0415

    with silenced():
        spark = session_at(master)
    try:
        yield spark
    except PySparkException as error:
        raise _ours(str(error)) from error
    finally:
        spark.stop()


def _ours(said: str) -> DelaymqError:
    """Returns the error that a task raised. Spark only has its text."""
    found = RAISED.search(said)
    kind = None if found is None else getattr(errors, found["kind"], None)
    if found is None or kind is None:
        return StoreError(f"Spark: {said.strip().partition(chr(10))[0]}")
    raised: DelaymqError = kind(found["words"])
    return raised
