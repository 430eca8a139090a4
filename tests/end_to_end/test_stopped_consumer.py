"""A consumer whose process stands still: its machine answers for it, and its messages go to others all the same."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import delaymq
from commanding import environment, refused
from delaymq.client import options
from serving import Served

# The least that may be configured: clients say something every 15 s.
SILENCE_SECONDS = 20
PATIENCE_SECONDS = 60
CONSUMER = """
import json, sys, delaymq
def tell(**what):
    print(json.dumps(what), flush=True)
with delaymq.connect(sys.argv[1]) as client, client.subscribe("order", group="billing") as messages:
    message = messages.get()
    tell(body=message.body.decode(), redelivered=message.redelivered)
    sys.stdin.readline()
    message.ack()
    try:
        messages.flush()
    except delaymq.AmbiguousError as error:
        tell(doubt=str(error))
    else:
        tell(doubt=None)
    with messages.get() as message:
        tell(body=message.body.decode(), redelivered=message.redelivered)
"""


def told(consumer: subprocess.Popen[str]) -> dict[str, object]:
    assert consumer.stdout is not None
    line = consumer.stdout.readline()
    assert line, "the consumer has ended"
    found: dict[str, object] = json.loads(line)
    return found


def asked(served: Served, command: str) -> int:
    """How many requests of this command there were."""
    start = f'delaymq_requests_total{{command="{command}"}}'
    lines = served.page("/metrics")[1].splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(start))


def in_flight(client: delaymq.Client) -> int:
    [group] = [group for group in client.groups() if group.subject == "order"]
    return group.in_flight


def test_what_a_stopped_process_holds_goes_to_others_and_it_finishes_none_of_it_when_it_goes_on(tmp_path: Path) -> None:
    with (
        Served(tmp_path / "store", "--set", f"server.silence_seconds={SILENCE_SECONDS}") as served,
        delaymq.connect(served.url) as client,
        subprocess.Popen(
            [sys.executable, "-c", CONSUMER, served.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as consumer,
    ):
        try:
            client.publish("order", b"first")
            assert told(consumer) == {"body": "first", "redelivered": False}
            consumer.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            with client.subscribe("order", group="billing") as messages:
                message = messages.get(timeout=PATIENCE_SECONDS)
                assert message is not None
                assert (message.body, message.redelivered) == (b"first", True)
                # It spoke last before it was stopped, but not long before.
                assert time.monotonic() - stopped > SILENCE_SECONDS - 10
                assert served.metric("cut_off_connections_total") == 1
                consumer.send_signal(signal.SIGCONT)
                assert consumer.stdin is not None
                consumer.stdin.write("\n")
                consumer.stdin.flush()
                doubt = told(consumer)["doubt"]
                assert isinstance(doubt, str)
                # It depends on whether it finds first that its connection is gone, or that nobody answers.
                assert "may come again" in doubt or "may have been done or not" in doubt
                assert in_flight(client) == 1, "it is still with whom it went to"
                message.ack()
                messages.flush()
            client.publish("order", b"second")
            assert told(consumer) == {"body": "second", "redelivered": False}
            assert consumer.wait(PATIENCE_SECONDS) == 0
            assert in_flight(client) == 0
        finally:
            consumer.kill()


def test_a_consumer_that_only_listens_says_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It hears the server all the time, holds what it was given, and has nothing to say by itself.
    with Served(tmp_path / "store") as served, delaymq.connect(served.url) as producer:
        monkeypatch.setattr(options, "PING_S", 0.2)  # not the producer's: all pings are the consumer's
        with delaymq.connect(served.url) as client, client.subscribe("order", group="billing") as messages:
            assert messages.get(timeout=0) is None, "what comes is sent ahead from now on"
            published, end = 0, time.monotonic() + 20
            while published < 20 or asked(served, "ping") < 4:
                assert time.monotonic() < end
                producer.publish("order", b"%d" % published)
                published += 1
                time.sleep(0.1)
            assert all(messages.get(timeout=PATIENCE_SECONDS) for _ in range(published))


def test_a_handler_that_keeps_the_event_loop_from_running_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client says that it lives, whatever Python does: it was taken for dead after 60 s of computing."""

    async def handle(served: Served) -> None:
        async with (
            delaymq.connect_async(served.url) as client,
            client.subscribe("order", group="billing") as messages,
        ):
            await client.publish("order", b"first")
            message = await messages.get(PATIENCE_SECONDS)
            assert message is not None
            before, end = asked(served, "ping"), time.monotonic() + PATIENCE_SECONDS
            while asked(served, "ping") < before + 4:  # the loop does not run meanwhile
                assert time.monotonic() < end
            message.ack()
            await messages.flush()

    with Served(tmp_path / "store") as served:
        monkeypatch.setattr(options, "PING_S", 0.2)
        asyncio.run(handle(served))


@pytest.mark.parametrize("seconds", ["19", "2592001"])
def test_a_silence_that_clients_do_not_keep_to_is_refused(tmp_path: Path, seconds: str) -> None:
    line = refused(2, "serve", "--store", tmp_path / "store", "--set", f"server.silence_seconds={seconds}")
    assert "server.silence_seconds: expected 20 to 2592000 seconds" in line
    assert not (tmp_path / "store").exists()
