"""A consumer whose client does not come back: an operator ends it, embedded or over TCP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from delaymq import Consumer, InvalidArgument
from qmq_client.bodies import Consumer as QmqConsumer
from qmq_client.bodies import Pull
from qmq_served.serving import HOLD_MS, QmqServed, join, messages_of, taken

GONE = QmqConsumer("order", "billing", "host@@gone")
RETRIES = "%RETRY%order%billing"


def hold(served: QmqServed) -> None:
    """One that has acknowledged the first of three messages, and holds the others."""
    with served.connected() as client:
        join(client, GONE)
        client.send(*messages_of("order", 3))
        held: list[int] = []
        while len(held) < 3:
            pulled = client.pull(Pull(GONE, hold_ms=HOLD_MS, last_received=held[-1] if held else -1))
            assert pulled is not None
            held += range(pulled.first, pulled.last + 1)
        assert client.acknowledge(GONE, held[0], held[0]) == 0


def test_where_no_server_runs_the_command_ends_it_and_its_group_can_go(tmp_path: Path) -> None:
    with QmqServed(tmp_path / "store") as served:
        hold(served)
        served.kill()
        place = ("--store", str(served.folder))
        assert command("status", *place).returncode == 0, "the store is open in good order now"
        [group] = (json.loads(line) for line in command("groups", "list", "--json", *place).stdout.splitlines())
        assert group["consumers"] == [["host@@gone", 2]]
        assert "consumers" in refused(2, "groups", "remove", "order", "billing", *place)
        assert "host@@else" in refused(2, "groups", "end-consumer", "order", "billing", "host@@else", *place)
        said = command("groups", "end-consumer", "order", "billing", "host@@gone", *place)
        assert (said.returncode, said.stdout) == (
            0,
            "consumer host@@gone of group billing of order is ended; it held 2 messages\n",
        )
        served.start()
        with served.connected() as client:
            other = QmqConsumer(RETRIES, "billing", "host@@other")
            assert sorted(taken(client, other, 2)) == ["m1", "m2"]
        served.kill()
        refused(2, "groups", "end-consumer", "order", "billing", "host@@gone", *place)
        assert command("groups", "end-consumer", "order", "billing", "host@@other", *place).returncode == 0
        assert command("groups", "remove", "order", "billing", *place).returncode == 0
        assert command("groups", "list", "--json", *place).stdout == ""
        served.start()


def test_where_one_runs_it_is_asked_and_a_crash_changes_nothing(tmp_path: Path) -> None:
    with QmqServed(tmp_path / "store", "server.qmq_retry_seconds=0") as served:
        hold(served)
        [group] = (json.loads(line) for line in command("groups", "list", "--json", *served.place).stdout.splitlines())
        assert (group["consumer_count"], group["consumers"]) == (1, [["host@@gone", 2]])
        said = command("groups", "end-consumer", "order", "billing", "host@@gone", *served.place)
        assert (said.returncode, said.stdout.endswith("it held 2 messages\n")) == (0, True)
        served.kill()
        served.start()
        assert command("groups", "end-consumer", "order", "billing", "host@@gone", *served.place).returncode == 2
        assert command("groups", "remove", "order", "billing", *served.place).returncode == 0


def test_the_clients_and_the_stores_have_it_too(tmp_path: Path) -> None:
    with QmqServed(tmp_path / "store") as served:
        hold(served)
        known = [Consumer("host@@gone", "order", 2, is_lasting=True, is_broadcast=False)]
        with delaymq.connect(served.url) as client, client.subscribe("order", group="billing"):
            found = client.consumers("order", "billing")
            assert found[:1] == known
            assert [(one.subject, one.in_flight, one.is_lasting) for one in found[1:]] == [("order", 0, False)]
            with pytest.raises(InvalidArgument, match="consumer: expected a consumer of the group that a client named"):
                client.end_consumer("order", "billing", found[1].name)
            assert client.end_consumer("order", "billing", "host@@gone") == 2
        hold(served)
        asyncio.run(ended_asynchronously(served.url))
        hold(served)
        served.stop()
        with delaymq.open(served.folder) as store:
            assert store.consumers("order", "billing") == known
            assert store.end_consumer("order", "billing", "host@@gone") == 2
            with pytest.raises(InvalidArgument, match="group: expected a group of the subject"):
                store.consumers("order", "nobody")
            store.remove_group("order", "billing")
        served.start()


async def ended_asynchronously(url: str) -> None:
    async with delaymq.connect_async(url) as client:
        [one] = await client.consumers("order", "billing")
        assert await client.end_consumer("order", "billing", one.name) == 2
