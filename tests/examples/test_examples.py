"""The examples, by a clock that is turned by hand; and as their readers start them."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

import delaymq
from delaymq.testing import Clock, crash, last_life, open_store, open_store_async, ready
from ports import lone_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: str, text: str = "") -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout.splitlines()


@pytest.fixture
def clock() -> Clock:
    return Clock(patience=60)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[delaymq.Store]:
    opened = open_store(tmp_path / "store", clock)
    yield opened
    last_life(opened).close()


def test_orders_are_given_up_when_nobody_pays(store: delaymq.Store, clock: Clock) -> None:
    module = example("order_timeout")
    database, told = sqlite3.connect(":memory:"), list[str]()
    shop = module.Shop(database, store, 30 * MINUTE)
    first, second, third = (shop.place() for _ in range(3))
    clock.advance(20 * MINUTE)
    assert shop.pay(second)
    born = crash(store)
    shop = module.Shop(database, born, 30 * MINUTE)
    clock.advance(10 * MINUTE)
    with born.subscribe(module.SUBJECT, group="shop") as messages:
        module.give_up_what_is_due(shop, messages, 0, told.append)
    assert [shop.state(number) for number in (first, second, third)] == ["given up", "paid", "given up"]
    assert told == [f"order {number} was not paid and is given up" for number in (first, third)]
    assert not shop.pay(first), "too late"
    assert not shop.give_up(second)
    database.close()


def test_the_shop_runs(tmp_path: Path) -> None:
    assert run("order_timeout", str(tmp_path / "shop"), "--pay-within", "0.3") == [
        "orders [1, 2, 3] are placed; 2 is paid",
        "order 1 was not paid and is given up",
        "order 3 was not paid and is given up",
    ]


async def given(lines: list[str], taken_in: asyncio.Event) -> AsyncIterator[str]:
    for line in lines:
        yield line
    taken_in.set()


def test_reminders_come_in_their_order(tmp_path: Path, clock: Clock) -> None:
    module = example("reminders")
    told: list[tuple[timedelta, str]] = []

    async def main() -> None:
        async with open_store_async(tmp_path / "store", clock) as store:
            taken_in = asyncio.Event()
            lines = given([f"{30 * 86_400} pay the rent\n", "60 tea is ready\n", "3600 ä\n"], taken_in)
            serving = asyncio.create_task(
                module.serve(store, lines, lambda text: told.append((clock.now - START, text)))
            )
            await asyncio.to_thread(clock.await_consumers)
            await taken_in.wait()
            await asyncio.to_thread(clock.advance, timedelta(days=30))
            await serving

    asyncio.run(main())
    assert told == [(MINUTE, "tea is ready"), (60 * MINUTE, "ä"), (timedelta(days=30), "pay the rent")]


def test_the_service_runs(tmp_path: Path) -> None:
    lines = run("reminders", str(tmp_path / "reminders"), text="4 second\n1 first\n")
    assert lines == ["first", "second"]


def test_what_fails_comes_again_later_and_later(store: delaymq.Store, clock: Clock) -> None:
    module = example("retry_with_backoff")
    attempts: list[tuple[timedelta, bytes]] = []

    def deliver(body: bytes) -> None:
        attempts.append((clock.now - START, body))
        if body == b"never" or len(attempts) < 4:
            raise ConnectionError("nobody is there")

    retry_after = delaymq.backoff(first=MINUTE, factor=2, jitter=0)
    with store.subscribe(module.SUBJECT, group="sender") as messages:
        thread = threading.Thread(target=module.deliver_all, args=(messages, deliver, retry_after))
        thread.start()
        clock.await_consumers()
        store.publish(module.SUBJECT, b"at last")
        clock.advance(timedelta(days=1))
        assert attempts == [(number * MINUTE, b"at last") for number in (0, 1, 3, 7)]
        attempts.clear()
        store.publish(module.SUBJECT, b"never")
        clock.advance(timedelta(days=1))
        messages.stop()
        thread.join()
    begin = timedelta(days=1)
    assert attempts == [(begin + number * MINUTE, b"never") for number in (0, 1, 3, 7, 15)]
    assert ready(store, module.SUBJECT, module.GROUP) == []
    told: list[str] = []
    assert module.bring_back(store, told.append) == 1
    assert told == ["'never' was given up after 5 attempts: nobody is there"]
    (again,) = ready(store, module.SUBJECT, module.GROUP)
    assert (again.body, again.attempt) == (b"never", 1)
    assert module.bring_back(store, told.append) == 0


def test_the_sender_runs(tmp_path: Path) -> None:
    assert run("retry_with_backoff", str(tmp_path / "webhooks")) == [
        "'refuse 0' is delivered",
        "'refuse 2' is delivered",
        "'refuse 99' was given up after 5 attempts: refused 5 times",
        "'refuse 99' is delivered",
    ]


def test_three_copies_outlive_their_primary(tmp_path: Path) -> None:
    command = ["sh", str(EXAMPLES / "cluster.sh"), str(tmp_path / "group")]
    ports = " ".join(str(lone_port()) for _ in range(9))
    variables = {**os.environ, "DELAYMQ": f"{sys.executable} -m delaymq", "PORTS": ports}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=variables)
    logs = "\n".join(log.read_text() for log in sorted((tmp_path / "group").glob("*.log")))
    assert ended.returncode == 0, ended.stderr + logs
    created, *_, body = ended.stdout.splitlines()
    assert created.startswith("stream ")
    assert body == "pay for order 42"
