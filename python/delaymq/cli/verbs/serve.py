"""`delaymq serve`: serves a store to other processes, over TCP."""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

from delaymq import __version__, _core
from delaymq._arguments.server_options import ClusterOptions, ConsumerOptions, ServerOptions
from delaymq.cli.exit_codes import Exit, code_of
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb
from delaymq.cli.input.settings import Settings, environment
from delaymq.cli.input.stores import add_settings, folder_of, open_store, settings_of
from delaymq.cli.output.clock_hold import hold_line, place_of
from delaymq.cli.output.terminal import count_words, is_lively
from delaymq.cli.server.cluster_options import cluster_of, is_cluster
from delaymq.cli.server.consumer_options import consuming_of
from delaymq.cli.server.logs import FORMATS, event, log_notices, told_as
from delaymq.cli.server.node import LOOK_MS, NOTICES_SECONDS, start_node, watch_node
from delaymq.cli.server.systemd import Service
from delaymq.errors import DelaymqError
from delaymq.store import Progress, Store

HOST = "127.0.0.1"
PORT = 20_801
HTTP_PORT = 20_880
DRAIN_SECONDS = 30
DAY_SECONDS = 86_400
RECOVERING_SECONDS = 1.0
PATIENCE_SECONDS = 60  # the time that systemd is asked for: until the next report of a recovery, or to close the store
SWITCHED_OFF = "switched_off"
SILENCE = "server.silence_seconds"
SILENCE_SECONDS_MIN = 20  # clients send something every 15 s at least
SILENCE_SECONDS_MAX = 30 * DAY_SECONDS


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "serve",
        run,
        summary="serve a store to other processes until it is stopped",
        details="SIGTERM or Ctrl-C finishes the requests under way and ends. A second signal ends the waiting.",
        examples=(
            "delaymq serve --store ./data",
            "delaymq serve --store ./data --set server.port=0 --set http.port=0 --json",
            "delaymq serve --config delaymq.toml --log json",
            "delaymq serve --config node1.toml",
        ),
    )
    verb.add_argument("--json", action="store_true", help="print the addresses as one JSON object")
    verb.add_argument(
        "--log", choices=FORMATS, metavar="FORMAT", help="format of the log on standard error: text or json"
    )
    verb.add_argument("--store", metavar="DIR", help="the store's folder, created if it is missing")
    add_settings(verb)
    verb.set_defaults(server=None)


def run(chosen: argparse.Namespace) -> int:
    """Serves until a signal comes."""
    settings = settings_of(chosen)
    log_format = chosen.log or settings.get("log.format", "text")
    with told_as(log_format):
        try:
            return _serve(chosen, settings, is_json=log_format == "json")
        except (DelaymqError, OSError) as error:
            if log_format != "json":
                raise
            event(logging.ERROR, "failed", str(error), error=type(error).__name__)
            return code_of(error) if isinstance(error, DelaymqError) else Exit.STORE


def _serve(chosen: argparse.Namespace, settings: Settings, *, is_json: bool) -> int:
    service = Service(environment())
    folder, consuming = folder_of(chosen, settings), consuming_of(settings)
    cluster = cluster_of(settings) if is_cluster(settings) else None
    _allow_descriptors()
    if is_json:  # people see that it begins, and a refusal must be one line
        words = f"delaymq {__version__} opens {folder}"
        event(logging.INFO, "start", words, version=__version__, store=str(folder), pid=os.getpid())
    choices = _choices(settings, consuming, str(folder / SWITCHED_OFF))
    has_bar = not is_json and is_lively(sys.stderr)
    tell = None if has_bar else Recovering(service).tell
    drain_ms = int(min(settings.get("server.drain_seconds", DRAIN_SECONDS), DAY_SECONDS) * 1000)
    with _Stopping(drain_ms, service) as stopping:
        serving = _Serving(chosen, settings, choices, service, stopping, is_logged=is_json)
        cut_off = serving.store(tell) if cluster is None else serving.copy(cluster, tell)
    level, words = (logging.WARNING, f"; {cut_off} connections were ended") if cut_off else (logging.INFO, "")
    event(level, "stopped", f"stopped{words}", cut_off=cut_off)
    return Exit.PART if cut_off else Exit.DONE


@dataclass(frozen=True)
class _Serving:
    """Serves until a signal comes, or until it fails. Each function returns how many connections were cut off."""

    chosen: argparse.Namespace
    settings: Settings
    choices: ServerOptions
    service: Service
    stopping: _Stopping
    is_logged: bool

    def store(self, tell: Callable[[Progress], None] | None) -> int:
        """Serves a store that has no copies."""
        # Before the store exists, so that a wrong address leaves none behind. Nothing is read there until it is open.
        places = _core.Places.take(self.choices)
        # The store is closed while signals are handled: a further signal must not interrupt the close.
        with open_store(self.chosen, self.settings, create=True, tell=tell) as store:
            if self.is_logged:
                status = store.status()
                words = f"recovered {count_words(status.recovered_facts, 'fact')} in {status.recovered_ms} ms"
                event(logging.INFO, "recovered", words, facts=status.recovered_facts, milliseconds=status.recovered_ms)
            server = places.serve(store._core)  # noqa: SLF001 - a server is a face of the store, beside its own
            self.begin(store, server)
            return _watch(store, server, self.stopping)

    def copy(self, cluster: ClusterOptions, tell: Callable[[Progress], None] | None) -> int:
        """Serves a copy of a group, which is a primary or a replica."""
        node = start_node(self.chosen, self.settings, self.choices, cluster, tell)
        address = node.addresses()[2]
        event(logging.INFO, "node_listening", f"other nodes connect to {address}", address=address)
        self.begin(None, node)
        return watch_node(node, self.stopping.tell)

    def begin(self, store: Store | None, server: _core.Server | _core.Node) -> None:
        """Handles signals, and reports that clients may connect."""
        self.stopping.listen(server)
        _say_where(store, server, self.settings, as_json=self.chosen.json, is_logged=self.is_logged)
        self.service.tell_ready(f"listening on {server.addresses()[0]}")


class Recovering:
    """Reports the progress of a long recovery, once a second."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts the clock.

        Args:
            service: The supervisor that started the process.
            clock: Returns seconds.
        """
        self._service = service
        self._clock = clock
        self._told = clock()

    def tell(self, progress: Progress) -> None:
        """Reports how much is read and applied."""
        if self._clock() - self._told < RECOVERING_SECONDS:
            return
        self._told = self._clock()
        percent = int(100 * progress.bytes / max(progress.bytes_whole, 1))
        words = f"recovering: {percent} %, {count_words(progress.facts, 'fact')}"
        counts = {"bytes": progress.bytes, "bytes_whole": progress.bytes_whole, "facts": progress.facts}
        event(logging.INFO, "recovering", words, percent=percent, **counts)
        self._service.tell_recovering(percent, PATIENCE_SECONDS)


def _allow_descriptors() -> None:
    """Raises the limit of open files as far as the system allows, because each connection takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems name a hard limit that they do not grant.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _choices(settings: Settings, consuming: ConsumerOptions, switched_off: str) -> ServerOptions:
    host = settings.get("server.host", HOST)
    return {
        "host": host,
        "port": settings.get("server.port", PORT),
        "http_host": settings.get("http.host", host),
        "http_port": settings.get("http.port", HTTP_PORT),
        "advertised_address": settings.get("server.advertised_address"),
        "token_hash": settings.get("server.token_hash"),
        "admin_token_hash": settings.get("server.admin_token_hash"),
        "qmq_clients_from": list(settings.get("server.qmq_clients_from", ())),
        "switched_off": switched_off,
        "silence_ms": _silence_ms(settings),
        "consuming": consuming,
    }


def _silence_ms(settings: Settings) -> int | None:
    """Returns None if the setting is not given."""
    if SILENCE not in settings:
        return None
    seconds = settings[SILENCE]
    if not SILENCE_SECONDS_MIN <= seconds <= SILENCE_SECONDS_MAX:
        raise UsageError(f"{SILENCE}: expected {SILENCE_SECONDS_MIN} to {SILENCE_SECONDS_MAX} seconds, found {seconds}")
    return int(seconds * 1000)


def _say_where(
    store: Store | None, server: _core.Server | _core.Node, settings: Settings, *, as_json: bool, is_logged: bool
) -> None:
    address, http_address = server.addresses()[:2]
    if "server.token_hash" in settings:
        networks = settings.get("server.qmq_clients_from", ())
        words = f"QMQ's commands are answered to clients from {', '.join(networks) or 'nowhere'}; others need the token"
        event(logging.INFO, "guarded", words, qmq_clients_from=list(networks))
    # The clock of a copy is of use only while it is the primary, and `/ready` shows it then.
    hold = None if store is None else hold_line(store.clock(), place_of(None, f"delaymq://{address}"))
    where = {"address": address, "http_address": http_address, "hold": hold}
    words = f"listening on {address}, http on {http_address}{'' if hold is None else f'; {hold}'}"
    if is_logged:
        event(logging.INFO, "listening", words, **where)
    print(json.dumps(where) if as_json else words, flush=True)


def _watch(store: Store, server: _core.Server, stopping: _Stopping) -> int:
    """Watches the server until it has stopped. Returns how many connections were closed with requests under way."""
    told = time.monotonic()
    cut_off = None
    while cut_off is None:
        cut_off = server.wait(LOOK_MS)
        stopping.tell()
        if cut_off is not None or time.monotonic() - told >= NOTICES_SECONDS:
            told = time.monotonic()
            log_notices(*server.notices())
        if store.status().poisoned is not None:
            # The store takes nothing until it is opened again; the supervisor can start the process again.
            server.stop(0)
    return cut_off


class _Stopping:
    """Handles signals until everything is closed: the first one drains, and each further one ends the waiting."""

    def __init__(self, drain_ms: int, service: Service) -> None:
        self._server: _core.Server | _core.Node | None = None
        self._patience_ms = [0, drain_ms]
        self._service = service
        self._signals = 0
        self._told = 0
        self._drain_ms = drain_ms
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        return self

    def listen(self, server: _core.Server | _core.Node) -> None:
        """Sends signals to this server from now on."""
        self._server = server
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}

    def __exit__(self, *_raised: object) -> None:
        # A server that ends in order has its own exit code, also after several signals.
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._signals else handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        # The loop reports it: a handler may interrupt the writing of a line.
        self._signals += 1
        if self._server is not None:
            self._server.stop(self._patience_ms.pop() if self._patience_ms else 0)

    def tell(self) -> None:
        """Reports signals that came."""
        while self._told < self._signals:
            self._told += 1
            if self._told == 1:
                seconds = self._drain_ms // 1000
                event(logging.INFO, "drain", f"draining, for {seconds} s at most", seconds=seconds)
                self._service.tell_stopping(seconds + PATIENCE_SECONDS)
            else:
                event(logging.INFO, "drain_ended", "a further signal ends the draining")
