"""The store that the verbs of groups and dead letters work on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from delaymq.cli.opening import open_store, settings_of
from delaymq.store import Store

__all__ = ["administered"]


@contextmanager
def administered(chosen: argparse.Namespace) -> Iterator[Store]:
    """The store that the command line names, open."""
    with open_store(chosen, settings_of(chosen)) as store:
        yield store
