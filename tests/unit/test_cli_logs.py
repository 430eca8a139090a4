"""What serve tells: lines for people, objects for programs, datagrams for systemd."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from delaymq._store.reports import log
from delaymq.cli.server.logs import CONTROL, event, told_as
from delaymq.cli.server.systemd import Service
from delaymq.cli.verbs.serve import Recovering
from delaymq.store import Progress

HOSTILE = "a\nb\r\x1b[31m\x00\x7f\x9b\u2028 é \U0001f600"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("delaymq")
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)


def test_nothing_that_is_said_begins_a_line_or_moves_a_cursor(stream: io.StringIO) -> None:
    for log_format in ("text", "json"):
        with told_as(log_format):
            event(logging.WARNING, "cut_off", f"x {HOSTILE}", address=HOSTILE, count=2)
    text, line = stream.getvalue().splitlines()
    assert not CONTROL.search(text + line)
    assert text == "delaymq: x a\\u000ab\\u000d\\u001b[31m\\u0000\\u007f\\u009b\\u2028 é \U0001f600"
    said = json.loads(line)
    assert said.pop("time").endswith("+00:00")
    assert said == {"level": "warning", "event": "cut_off", "message": f"x {HOSTILE}", "address": HOSTILE, "count": 2}


def test_what_the_store_reports_is_an_event_too(stream: io.StringIO) -> None:
    with told_as("json"):
        log("error", "poisoned", "the store stopped")
        logging.getLogger("delaymq").info("of something else")
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["level"], one["event"]) for one in said] == [("error", "poisoned"), ("info", "other")]


def test_afterwards_all_is_as_it_was(stream: io.StringIO) -> None:
    logger = logging.getLogger("delaymq")
    before = (logger.level, [handler.formatter for handler in logger.handlers])
    with pytest.raises(ValueError, match="inside"), told_as("json"):
        raise ValueError("inside")
    assert (logger.level, [handler.formatter for handler in logger.handlers]) == before
    event(logging.INFO, "x", "not told")
    assert stream.getvalue() == ""


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        listening.settimeout(5)
        yield listening, {"NOTIFY_SOCKET": path}


def test_systemd_is_told(systemd: tuple[socket.socket, dict[str, str]]) -> None:
    listening, environment = systemd
    service = Service(environment)
    service.tell_recovering(40, 60)
    service.tell_ready("listening on 127.0.0.1:1")
    service.tell_stopping(90)
    assert [listening.recv(4096).decode().split("\n") for _ in range(3)] == [
        ["STATUS=recovering, 40 %", "EXTEND_TIMEOUT_USEC=60000000"],
        ["READY=1", "STATUS=listening on 127.0.0.1:1"],
        ["STOPPING=1", "STATUS=draining", "EXTEND_TIMEOUT_USEC=90000000"],
    ]


def test_an_address_without_a_file_is_told_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("")  # any abstract address
        listening.settimeout(5)
        Service({"NOTIFY_SOCKET": "@" + listening.getsockname()[1:].decode()}).tell("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_nobody_needs_to_listen() -> None:
    Service({}).tell("READY=1")
    Service({"NOTIFY_SOCKET": "/nowhere/at/all"}).tell("READY=1")


def test_a_long_recovery_is_told_of_once_a_second(
    stream: io.StringIO, systemd: tuple[socket.socket, dict[str, str]]
) -> None:
    listening, environment = systemd
    now = [0.0]
    recovering = Recovering(Service(environment), lambda: now[0])
    with told_as("json"):
        for step in range(30):
            now[0] = step / 10
            recovering.tell(Progress(bytes=step * 10, bytes_whole=300, facts=step))
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["event"], one["percent"], one["facts"]) for one in said] == [
        ("recovering", 33, 10),
        ("recovering", 66, 20),
    ]
    assert listening.recv(100).startswith(b"STATUS=recovering, 33 %")
    recovering.tell(Progress(bytes=0, bytes_whole=0, facts=0))
