"""The store on which the verbs of groups and dead letters work, in a folder or behind a server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from delaymq.cli.input.stores import Queue, open_queue, settings_of

__all__ = ["administered"]


@contextmanager
def administered(chosen: argparse.Namespace) -> Iterator[Queue]:
    """Opens the store that the command line names."""
    with open_queue(chosen, settings_of(chosen)) as store:
        yield store
