"""A step of the wall clock holds dispatch until an operator accepts it, on every face. The clock is turned by hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import Client, ClockStatus, InvalidArgument, Store, WrongType
from delaymq.testing import Clock, Server, open_store, open_store_async, ready, serve

HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000


@pytest.fixture(params=["store", "client"])
def face(request: pytest.FixtureRequest, delaymq_store: Store, delaymq_server: Server) -> Iterator[Store | Client]:
    if request.param == "store":
        yield delaymq_store
        return
    with delaymq.connect(delaymq_server.url) as client:
        yield client


def bodies(store: Store) -> list[bytes]:
    return [message.body for message in ready(store, "reminder")]


def test_a_clock_that_agrees_holds_nothing(face: Store | Client, delaymq_clock: Clock) -> None:
    found = face.clock()
    now_ms = int(delaymq_clock.now.timestamp() * 1000)
    assert found == ClockStatus(now_ms, now_ms, 0, found.is_synchronised, False, None, None, None, None, None)
    with pytest.raises(InvalidArgument, match=r"ahead_ms: expected a step ahead .*, found dispatch is not held"):
        face.accept_clock(HOUR_MS)


def test_an_operator_accepts_the_step_that_was_seen(
    face: Store | Client, delaymq_store: Store, delaymq_clock: Clock
) -> None:
    face.publish("reminder", b"in an hour", delay=HOUR)
    delaymq_clock.step_ahead(HOUR)
    delaymq_clock.advance(2)
    assert bodies(delaymq_store) == []
    seen = face.clock()
    assert (seen.held, seen.reason, seen.ahead_ms, seen.accepted_in_ms) == (True, "stepped_ahead", HOUR_MS, None)
    assert seen.held_since_ms is not None
    assert seen.held_ms is not None
    assert (seen.held_since_ms + seen.held_ms, seen.wall_ms - seen.now_ms) == (seen.now_ms, HOUR_MS)
    assert seen.words is not None
    assert seen.words.startswith("dispatch is held since 20")
    assert f"`delaymq clock accept --ahead-ms {HOUR_MS}` ends the hold" in seen.words
    assert face.status().held
    assert face.accept_clock(seen.ahead_ms) == HOUR_MS
    assert not face.status().held
    delaymq_clock.advance(0)
    assert bodies(delaymq_store) == [b"in an hour"]
    delaymq_clock.step_ahead(HOUR)
    assert face.status().held, "a later step holds dispatch again"


def test_a_step_since_the_operator_looked_is_not_accepted(
    face: Store | Client, delaymq_store: Store, delaymq_clock: Clock
) -> None:
    face.publish("reminder", b"in an hour", delay=HOUR)
    delaymq_clock.step_ahead(HOUR)
    seen = face.clock()
    delaymq_clock.step_ahead(1)
    with pytest.raises(InvalidArgument, match=f"expected {HOUR_MS + 1_000}, the step that holds .*, found {HOUR_MS}"):
        face.accept_clock(seen.ahead_ms)
    assert face.clock().held
    delaymq_clock.advance(1)
    assert bodies(delaymq_store) == []
    delaymq_clock.step_back(timedelta(hours=1, seconds=1))
    assert not face.clock().held, "the step is undone"
    assert bodies(delaymq_store) == []


@pytest.mark.parametrize(("wrong", "kind"), [(-1, InvalidArgument), (2**63, InvalidArgument), ("1h", WrongType)])
def test_what_is_no_step_is_refused(face: Store | Client, wrong: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="ahead_ms"):
        face.accept_clock(wrong)


def test_the_coroutines_do_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock()
        async with open_store_async(tmp_path / "store", clock) as store:
            clock.step_ahead(HOUR)
            seen = await store.clock()
            assert (seen.held, seen.ahead_ms) == (True, HOUR_MS)
            with pytest.raises(InvalidArgument):
                await store.accept_clock(1)
            assert await store.accept_clock(seen.ahead_ms) == HOUR_MS
            assert not (await store.clock()).held

    asyncio.run(run())


def test_the_coroutines_do_the_same_over_tcp(delaymq_server: Server, delaymq_clock: Clock) -> None:
    async def run() -> None:
        async with delaymq.connect_async(delaymq_server.url) as client:
            delaymq_clock.step_ahead(HOUR)
            seen = await client.clock()
            assert (seen.held, seen.ahead_ms) == (True, HOUR_MS)
            with pytest.raises(InvalidArgument):
                await client.accept_clock(1)
            assert await client.accept_clock(seen.ahead_ms) == HOUR_MS
            assert not (await client.clock()).held

    asyncio.run(run())


def test_a_setting_accepts_a_step_once_the_clock_has_kept_its_pace(tmp_path: Path) -> None:
    clock = Clock()
    with delaymq.open(tmp_path / "store", durability="os", clock=clock, clock_accept_after=60) as store:
        store.publish("reminder", b"in an hour", delay=HOUR)
        clock.step_ahead(HOUR)
        assert store.clock().accepted_in_ms == 60_000
        clock.advance(59)
        clock.step_ahead(10)
        assert store.clock().accepted_in_ms == 60_000, "another step"
        clock.advance(59.999)
        assert store.status().held
        assert bodies(store) == []
        clock.advance(0.001)
        assert not store.status().held
        assert bodies(store) == [b"in an hour"]


def test_the_setting_is_off_by_default(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", clock) as store:
        clock.step_ahead(HOUR)
        assert store.status().held
        clock.advance(timedelta(days=366))
        assert (store.clock().held, store.clock().accepted_in_ms) == (True, None)


@pytest.mark.parametrize(("wrong", "kind"), [(0, InvalidArgument), (0.999, InvalidArgument), ("1m", WrongType)])
def test_a_pace_of_less_than_a_second_is_refused(wrong: Any, kind: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(kind, match="clock_accept_after"):
        delaymq.open(tmp_path / "store", clock_accept_after=wrong)
    assert not (tmp_path / "store").exists()


def test_an_acceptance_is_a_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with (
        caplog.at_level(logging.INFO, "delaymq"),
        delaymq.open(tmp_path / "store", durability="os", clock=clock) as store,
        serve(store) as server,
        delaymq.connect(server.url) as client,
    ):
        clock.step_ahead(HOUR)
        client.accept_clock(client.clock().ahead_ms)
    said = [record.getMessage() for record in caplog.records]
    accepted = f"an operator accepted the wall clock: the trusted clock goes on {HOUR_MS} ms later"
    [place] = [index for index, line in enumerate(said) if accepted in line]
    assert any("dispatch is held: the wall clock stepped ahead" in line for line in said[:place])
    assert any("dispatch goes on" in line for line in said[place:])
