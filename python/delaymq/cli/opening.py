"""Which store a verb works on, and opening it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from delaymq.cli.failures import NoServer, UsageError
from delaymq.cli.settings import Settings, environment, load
from delaymq.cli.terminal import Bar
from delaymq.store import Progress, Store

__all__ = ["add_place", "add_settings", "folder_of", "open_store", "settings_of"]


def add_place(verb: argparse.ArgumentParser) -> None:
    """Adds the options that say which store is meant, and those of the configuration."""
    place = verb.add_mutually_exclusive_group()
    place.add_argument("--store", type=Path, metavar="DIR", help="the store's folder")
    place.add_argument("--server", metavar="URL", help="a server instead; this release has no client")
    add_settings(verb)


def add_settings(verb: argparse.ArgumentParser) -> None:
    """Adds the options of the configuration."""
    verb.add_argument("--config", type=Path, metavar="FILE", help="a file of settings, in TOML (see: delaymq config)")
    verb.add_argument(
        "--set", action="append", default=[], dest="pairs", metavar="KEY=VALUE", help="one setting; may be repeated"
    )


def settings_of(chosen: argparse.Namespace) -> Settings:
    """What is configured for this command.

    Raises:
        UsageError: Something is not as it must be.
    """
    return load(chosen.config, environment(), chosen.pairs)


def folder_of(chosen: argparse.Namespace, settings: Settings) -> Path:
    """The store's folder.

    Raises:
        NoServer: A server was asked for.
        UsageError: Neither was given.
    """
    if chosen.server is not None:
        raise NoServer
    if chosen.store is not None:
        return Path(chosen.store)
    if "store.path" in settings:
        return Path(settings["store.path"])
    raise UsageError("no store: give --store DIR, or configure store.path")


def open_store(
    chosen: argparse.Namespace,
    settings: Settings,
    *,
    create: bool = False,
    tell: Callable[[Progress], None] | None = None,
) -> Store:
    """Opens the store, with a bar where recovery takes long enough to see one.

    Args:
        chosen: The arguments of the verb.
        settings: What is configured.
        create: Makes it where there is none.
        tell: Is told of the progress instead of the bar.

    Raises:
        NoServer, UsageError: As `folder_of`.
        StoreError: As `delaymq.open`.
    """
    options: dict[str, Any] = {}
    for name in ("durability", "segment_bytes"):
        if f"store.{name}" in settings:
            options[name] = settings[f"store.{name}"]
    if "store.delay_days_max" in settings:
        options["delay_max"] = _span(settings, "store.delay_days_max", "days")
    if "store.keep_finished_hours" in settings:
        options["keep_finished"] = _span(settings, "store.keep_finished_hours", "hours")
    folder = folder_of(chosen, settings)
    if tell is not None:
        return Store.open(folder, create=create, progress=tell, **options)
    with Bar("recovering", sys.stderr) as bar:

        def show(progress: Progress) -> None:
            bar.show(progress.bytes, progress.bytes_whole, f"{progress.facts:,} facts")

        return Store.open(folder, create=create, progress=show, **options)


def _span(settings: Settings, name: str, unit: str) -> timedelta:
    try:
        return timedelta(**{unit: settings[name]})
    except OverflowError:
        raise UsageError(f"{settings.origin(name)}: {name}: {settings[name]} {unit} are too many") from None
