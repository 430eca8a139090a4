"""`delaymq serve`: a store for other processes, over TCP."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from delaymq import _core
from delaymq.cli.arguments import add_verb
from delaymq.cli.consuming import consuming_of
from delaymq.cli.exit_codes import Exit
from delaymq.cli.opening import add_settings, open_store, settings_of

if TYPE_CHECKING:
    from delaymq.cli.arguments import Verbs

__all__ = ["add_to", "run"]

HOST = "127.0.0.1"
PORT = 20_801
HTTP_PORT = 20_880
DRAIN_SECONDS = 30
LOOK_MS = 200
DAY_SECONDS = 86_400

EXAMPLES = (
    "delaymq serve --store ./data",
    "delaymq serve --store ./data --set server.port=0 --set http.port=0 --json",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "serve",
        run,
        summary="serve a store to other processes until it is told to stop",
        details="SIGTERM or Ctrl-C answers what is under way and ends; a second one ends the waiting.",
        examples=EXAMPLES,
    )
    verb.add_argument("--json", action="store_true", help="say where it listens as one JSON object")
    verb.add_argument("--store", metavar="DIR", help="the store's folder, made where there is none")
    add_settings(verb)
    verb.set_defaults(server=None)


def run(chosen: argparse.Namespace) -> int:
    """Serves until a signal comes."""
    settings = settings_of(chosen)
    consuming = consuming_of(settings)
    with open_store(chosen, settings, create=True) as store:
        server = _core.Server.start(
            store._core,  # noqa: SLF001 - a server is a face of the store, beside its own
            settings.get("server.host", HOST),
            settings.get("server.port", PORT),
            settings.get("http.port", HTTP_PORT),
            settings.get("server.advertised_address"),
            consuming,
        )
        drain_ms = int(min(settings.get("server.drain_seconds", DRAIN_SECONDS), DAY_SECONDS) * 1000)
        with _stopped_by_signals(server, drain_ms):
            _say_where(server, as_json=chosen.json)
            cut_off = server.wait(LOOK_MS)
            while cut_off is None:
                if store.status().poisoned is not None:
                    # Nothing is taken until the store is opened again, which whoever started this can do.
                    server.stop(0)
                cut_off = server.wait(LOOK_MS)
    return Exit.PART if cut_off else Exit.DONE


def _say_where(server: _core.Server, *, as_json: bool) -> None:
    address, http_address = server.addresses()
    if as_json:
        print(json.dumps({"address": address, "http_address": http_address}), flush=True)
    else:
        print(f"listening on {address}, http on {http_address}", flush=True)


@contextmanager
def _stopped_by_signals(server: _core.Server, drain_ms: int) -> Iterator[None]:
    """The first signal drains, each further one ends the waiting."""
    patience = [drain_ms]

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.stop(patience.pop() if patience else 0)

    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, stop) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
