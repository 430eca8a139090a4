"""clock, status and the first line of serve, over a store that plays the part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from delaymq import ClockStatus, InvalidArgument
from delaymq.cli import main
from delaymq.cli.verbs import clock, serve, status

WORDS = "dispatch is held since 2030-01-01T00:00:00Z: {}; `delaymq clock accept --ahead-ms 3600000` ends the hold"
STEPPED = ClockStatus(
    1_893_456_009_000, 1_893_459_609_000, 3_600_000, False, True, "stepped_ahead", 1_893_456_000_000, 9_000, None, WORDS
)
BEHIND = ClockStatus(9_000, 5_000, -4_000, True, True, "behind_log", 0, 9_000, None, "dispatch is held: it is behind")
FREE = ClockStatus(9_000, 9_000, 0, True, False, None, None, None, None, None)
SERVER = ("--server", "delaymq://127.0.0.1:1")


class Played:
    def __init__(self) -> None:
        self.shown = STEPPED
        self.accepted: list[int] = []

    def clock(self) -> ClockStatus:
        return self.shown

    def accept_clock(self, ahead_ms: int) -> int:
        if ahead_ms != 3_600_000:
            raise InvalidArgument("ahead_ms: expected another step, found it", argument="ahead_ms")
        self.accepted.append(ahead_ms)
        return ahead_ms

    def status(self) -> SimpleNamespace:
        counts = {"pending": 1, "ready": 2, "durability": "disk", "epoch": 3, "recovered_ms": 4, "recovered_facts": 5}
        troubles = {"poisoned": None, "disk_full": False, "room_low": False, "free_bytes": None, "voided": 0}
        return SimpleNamespace(
            **counts, **troubles, held=self.shown.held, hot_minutes=0, expired=0, aside=(), zones="2026a"
        )


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    store = Played()

    @contextmanager
    def open_queue(_chosen: object, _settings: object) -> Iterator[Played]:
        yield store

    monkeypatch.setattr(clock, "open_queue", open_queue)
    monkeypatch.setattr(status, "open_queue", open_queue)
    return store


def test_the_first_line_says_that_dispatch_is_held_and_what_ends_it(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    ends_it = "`delaymq clock accept --ahead-ms 3600000 --server delaymq://127.0.0.1:1` ends the hold"
    for verb in (("clock", "status"), ("status",)):
        assert main([*verb, *SERVER]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert "dispatch is held since 2030-01-01T00:00:00Z" in first
        assert first.endswith(ends_it)
    assert main(["clock", "status", "--store", "my store"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        WORDS.replace("3600000`", "3600000 --store 'my store'`"),
        "trusted clock 2030-01-01T00:00:09+00:00; wall clock 3,600,000 ms ahead",
        "the kernel does not report that a time service keeps the wall clock right",
    ]
    played.shown = FREE
    assert main(["status", *SERVER]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "1 pending; 2 ready"
    assert main(["clock", "status", *SERVER]) == 0
    first, _, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("dispatch is not held", "a time service keeps the wall clock right")


def test_a_clock_is_one_object(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clock", "status", "--json", *SERVER]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ahead_ms"], found["reason"], found["words"]) == (3_600_000, "stepped_ahead", played.shown.words)


def test_a_step_is_accepted(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clock", "accept", "--ahead-ms", "3600000", *SERVER]) == 0
    assert capsys.readouterr().out.startswith("the step is accepted: the trusted clock goes on 3,600,000 ms later")
    assert main(["clock", "accept", "--json", *SERVER]) == 0, "the step that it finds"
    assert json.loads(capsys.readouterr().out) == {"accepted_ms": 3_600_000}
    assert played.accepted == [3_600_000, 3_600_000]


def test_what_is_no_step_is_refused(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clock", "accept", "--ahead-ms", "1", *SERVER]) == 2
    assert capsys.readouterr().err == "delaymq: --ahead-ms: expected another step, found it\n"
    for shown, words in ((FREE, "dispatch is not held"), (BEHIND, "dispatch is held: it is behind")):
        played.shown = shown
        assert main(["clock", "accept", *SERVER]) == 2
        assert capsys.readouterr().err == f"delaymq: there is no step to accept: {words}\n"
    assert played.accepted == []


@pytest.mark.parametrize("as_json", [False, True])
def test_a_server_says_it_in_its_first_line(as_json: bool, played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    server = SimpleNamespace(addresses=lambda: ("127.0.0.1:1", "127.0.0.1:2"))

    def said() -> str:
        serve._say_where(played, server, {}, as_json=as_json, is_logged=False)  # type: ignore[arg-type]
        [line] = capsys.readouterr().out.splitlines()
        return line

    hold = WORDS.replace("3600000`", "3600000 --server delaymq://127.0.0.1:1`")
    where = {"address": "127.0.0.1:1", "http_address": "127.0.0.1:2"}
    listening = "listening on 127.0.0.1:1, http on 127.0.0.1:2"
    assert said() == (json.dumps({**where, "hold": hold}) if as_json else f"{listening}; {hold}")
    played.shown = FREE
    assert said() == (json.dumps({**where, "hold": None}) if as_json else listening)
