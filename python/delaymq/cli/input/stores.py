"""The store on which a verb works, in a folder or behind a server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import Settings, environment, load
from delaymq.cli.output.clock_hold import place_of
from delaymq.cli.output.terminal import Bar, count_words
from delaymq.store import Progress, Store

if TYPE_CHECKING:
    from delaymq.client.threads.client import Client

Queue: TypeAlias = "Store | Client"

TOKEN_BYTES_MAX = 1024
PROOF_HELP = "a file with the token for the server; every user of this machine can read command lines"


def add_place(verb: argparse.ArgumentParser) -> None:
    """Adds the options that name the store, in a folder or behind a server, and those of the settings."""
    _add_store_or_server(verb, "a server instead: delaymq://host:port,… (its nodes)")
    verb.add_argument("--token-file", type=Path, metavar="FILE", help=PROOF_HELP)
    add_settings(verb)


def add_files(verb: argparse.ArgumentParser, instead: str) -> None:
    """Adds the same options for a verb that works only on the files of a store.

    Args:
        verb: The parser of the verb.
        instead: The next step of the user if the store is behind a server, in words.
    """
    _add_store_or_server(verb, "refused: this verb reads files")
    verb.set_defaults(instead=instead)
    add_settings(verb)


def _add_store_or_server(verb: argparse.ArgumentParser, words: str) -> None:
    place = verb.add_mutually_exclusive_group()
    place.add_argument("--store", type=Path, metavar="DIR", help="the store's folder")
    place.add_argument("--server", metavar="URL", help=words)


def add_settings(verb: argparse.ArgumentParser) -> None:
    """Adds the options of the configuration."""
    verb.add_argument("--config", type=Path, metavar="FILE", help="a file of settings, in TOML (see: delaymq config)")
    verb.add_argument(
        "--set", action="append", default=[], dest="pairs", metavar="KEY=VALUE", help="one setting; may be repeated"
    )


def settings_of(chosen: argparse.Namespace) -> Settings:
    """Returns the configuration of this command.

    Raises:
        UsageError: A setting is wrong.
    """
    return load(chosen.config, environment(), chosen.pairs)


def folder_of(chosen: argparse.Namespace, settings: Settings) -> Path:
    """Returns the store's folder.

    Raises:
        UsageError: A server was given, or nothing.
    """
    if chosen.server is not None:
        raise UsageError(f"--server: {chosen.verb} reads the files of a store: {chosen.instead}")
    if chosen.store is not None:
        return Path(chosen.store)
    if "store.path" in settings:
        return Path(settings["store.path"])
    raise UsageError("no store: give --store DIR, or configure store.path")


def is_served(chosen: argparse.Namespace, settings: Settings) -> bool:
    """Returns True for a server, and False for a folder.

    Raises:
        UsageError: Neither is given, or both are configured, or a token is given with a folder.
    """
    if chosen.server is not None:
        return True
    configured = [name for name in ("store.path", "client.server") if name in settings]
    if chosen.store is None and len(configured) > 1:
        first, second = (f"{name} ({settings.origin(name)})" for name in configured)
        raise UsageError(f"two stores: {first} and {second} are configured; say --store DIR or --server URL")
    if chosen.store is None and not configured:
        raise UsageError("no store: give --store DIR or --server URL, or configure store.path or client.server")
    served = chosen.store is None and configured == ["client.server"]
    if not served and chosen.token_file is not None:
        raise UsageError("--token-file: a store in a folder asks for no token; it goes with --server URL")
    return served


def place_in(chosen: argparse.Namespace, settings: Settings) -> str:
    """Returns the options that name the store of this command on another command line.

    Raises:
        UsageError: As in `is_served`.
    """
    if is_served(chosen, settings):
        return place_of(None, settings["client.server"] if chosen.server is None else chosen.server)
    return place_of(folder_of(chosen, settings), None)


def open_queue(chosen: argparse.Namespace, settings: Settings | None = None, *, create: bool = False) -> Queue:
    """Opens the store, or connects to the server. A verb works on both in the same way.

    Without `settings`, it reads the configuration.

    Raises:
        UsageError: As in `is_served`, or the token's file is refused.
        DelaymqError: As in `delaymq.open` and `delaymq.connect`.
    """
    settings = settings_of(chosen) if settings is None else settings
    if is_served(chosen, settings):
        return server_of(chosen, settings)
    return open_store(chosen, settings, create=create)


def server_of(chosen: argparse.Namespace, settings: Settings) -> Client:
    """Connects to the server.

    Raises:
        UsageError: The token's file is refused.
        DelaymqError: As in `delaymq.connect`.
    """
    from delaymq.client.threads.client import connect  # noqa: PLC0415 - who opens a folder need not wait for it

    url = settings["client.server"] if chosen.server is None else chosen.server
    path = chosen.token_file or settings.get("client.token_file")
    options = {"timeout": settings["client.timeout_seconds"]} if "client.timeout_seconds" in settings else {}
    return connect(url, token=None if path is None else token_in(Path(path)), **options)


def token_in(path: Path) -> bytes:
    """Reads the token from a file, without the end of its line.

    Raises:
        UsageError: The file cannot be read, or does not hold one token.
    """
    try:
        with path.open("rb") as file:
            content = file.read(TOKEN_BYTES_MAX + len(b"\r\n") + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    token = content.removesuffix(b"\n").removesuffix(b"\r")
    if not token:
        raise UsageError(f"{path}: expected a token, found nothing")
    if len(token) > TOKEN_BYTES_MAX:
        raise UsageError(f"{path}: expected a token of at most {TOKEN_BYTES_MAX:,} bytes, found more")
    if any(one in token for one in b"\r\n"):
        raise UsageError(f"{path}: expected one line with a token, found several")
    return token


def open_store(
    chosen: argparse.Namespace,
    settings: Settings,
    *,
    create: bool = False,
    tell: Callable[[Progress], None] | None = None,
) -> Store:
    """Opens the store in a folder, with a progress bar if recovery takes long enough.

    Args:
        chosen: The arguments of the verb.
        settings: The configuration.
        create: Creates the store if the folder has none.
        tell: Receives the progress, instead of the bar.

    Raises:
        UsageError: As in `folder_of`.
        StoreError: As in `delaymq.open`.
    """
    with opening(chosen, settings, tell=tell) as (folder, options):
        return Store.open(folder, create=create, **options)


@contextmanager
def opening(
    chosen: argparse.Namespace, settings: Settings, *, tell: Callable[[Progress], None] | None = None
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the folder and the options of `delaymq.open`, and shows a progress bar if the block takes long enough.

    The arguments are those of `open_store`.
    """
    options: dict[str, Any] = {}
    for name in PLAIN:
        if f"store.{name}" in settings:
            options[name] = settings[f"store.{name}"]
    if "store.delay_days_max" in settings:
        options["delay_max"] = _span(settings, "store.delay_days_max", "days")
    options |= kept_of(settings)
    if "store.deduplicate_minutes" in settings:
        options["deduplicate_for"] = _span(settings, "store.deduplicate_minutes", "minutes")
    if "store.clock_accept_after_seconds" in settings:
        options["clock_accept_after"] = _span(settings, "store.clock_accept_after_seconds", "seconds")
    folder = folder_of(chosen, settings)
    if tell is not None:
        yield folder, options | {"progress": tell}
        return
    with Bar("recovering", sys.stderr) as bar:

        def show(progress: Progress) -> None:
            bar.show(progress.bytes, progress.bytes_whole, count_words(progress.facts, "fact"))

        yield folder, options | {"progress": show}


PLAIN = (
    "durability",
    "segment_bytes",
    "keys_max",
    "message_ids_max",
    "hot_minute_messages",
    "window_bytes",
    "warn_free_bytes",
    "refuse_free_bytes",
)
"""Returns the settings that are options of `delaymq.open` with the same name."""


def kept_of(settings: Settings) -> dict[str, Any]:
    """Returns how long finished files are kept, as options of `delaymq.open` and `delaymq.inspect`.

    Raises:
        UsageError: A time is too long, or a name is not a valid subject.
    """
    options: dict[str, Any] = {}
    if "store.keep_finished_hours" in settings:
        options["keep_finished"] = _span(settings, "store.keep_finished_hours", "hours")
    name = "store.keep_finished_hours_of"
    if name in settings:
        times = settings[name].items()
        options["keep_finished_of"] = {subject: _time(settings, name, hours, "hours") for subject, hours in times}
    return options


def _span(settings: Settings, name: str, unit: str) -> timedelta:
    return _time(settings, name, settings[name], unit)


def _time(settings: Settings, name: str, number: float, unit: str) -> timedelta:
    try:
        return timedelta(**{unit: number})
    except OverflowError:
        raise UsageError(f"{settings.origin(name)}: {name}: {number} {unit} are too many") from None
