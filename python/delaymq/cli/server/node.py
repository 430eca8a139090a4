"""A node of a group of copies, which `delaymq serve` runs instead of a store and its server."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable

from delaymq import _core
from delaymq._arguments.server_options import ClusterOptions, ServerOptions
from delaymq._store.recovery import OpenOptions, errors_named
from delaymq.cli.input.settings import Settings
from delaymq.cli.input.stores import opening
from delaymq.cli.server.logs import event, log_notices
from delaymq.status import Progress

LOOK_MS = 200
NOTICES_SECONDS = 1.0  # how often events of peers are logged


def start_node(
    chosen: argparse.Namespace,
    settings: Settings,
    choices: ServerOptions,
    cluster: ClusterOptions,
    tell: Callable[[Progress], None] | None,
) -> _core.Node:
    """Opens the copy, or makes an empty one of the group, and listens.

    Args:
        chosen: The arguments of the verb.
        settings: The configuration.
        choices: The options of the server for clients.
        cluster: The options of the node.
        tell: Receives the progress of recovery, instead of a bar.

    Raises:
        UsageError, StoreError, InvalidArgument: As `open_store`; or the group or its register refuses the node.
    """
    with opening(chosen, settings, tell=tell) as (folder, options):
        opened = OpenOptions.made(folder, **options)
        with errors_named(opened.folder):
            return _core.Node.start(opened.folder, opened.options, choices, cluster, opened.progress)


def watch_node(node: _core.Node, meanwhile: Callable[[], None]) -> int:
    """Logs the reports of the node until it has stopped. Returns how many connections were cut off.

    Raises:
        StoreError: The node has ended by itself.
    """
    cut_off, told = None, time.monotonic()
    try:
        while cut_off is None:
            cut_off = node.wait(LOOK_MS)
            meanwhile()
            _log_reports(node)
            if time.monotonic() - told >= NOTICES_SECONDS:
                told = time.monotonic()
                log_notices(*node.notices())
    finally:
        _log_reports(node)
        log_notices(*node.notices())
    return cut_off


def _log_reports(node: _core.Node) -> None:
    while (report := node.next_report(0)) is not None:
        is_warning, line = report
        event(logging.WARNING if is_warning else logging.INFO, "node", line)
