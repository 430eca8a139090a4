"""Marks of free room on the disk: whoever publishes below the second is refused, on every face; all else goes on."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

import delaymq
from commanding import command, refused
from crafting import one, publish_all, wait_until
from delaymq import DiskFull, InvalidArgument
from delaymq.testing import serve
from serving import Served

NEVER_FREE = 2**62
"""More than any disk has free."""
LITTLE = 1
"""Less than the disk of any test has free."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with three messages for a group."""
    with delaymq.open(tmp_path / "store") as store:
        store.start_group("now", "g")
        publish_all(store, "now", [b"1", b"2", b"3"])
    return tmp_path / "store"


def below(folder: Path) -> delaymq.Store:
    return delaymq.open(folder, refuse_free_bytes=NEVER_FREE)


def test_publishes_are_refused_and_the_rest_goes_on(folder: Path) -> None:
    with below(folder) as store:
        with pytest.raises(DiskFull, match=f"refused while less than {NEVER_FREE} bytes") as caught:
            store.publish("now", b"no")
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(DiskFull):
            store.start_group("new", "g")
        assert store.status().disk_full
        with store.subscribe("now", group="g") as messages:
            one(messages).ack()
            one(messages).nack(0)
            one(messages).dead_letter("no such order")
            messages.flush(5)
        store.checkpoint()
        assert store.status().accepted > 3
    with delaymq.open(folder) as store:
        assert not store.status().disk_full
        assert store.status().free_bytes is None
        store.publish("now", b"again")


def test_little_room_is_told_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with delaymq.open(folder, warn_free_bytes=NEVER_FREE, refuse_free_bytes=LITTLE) as store:
        status = store.status()
        assert (status.room_low, status.disk_full) == (True, False)
        assert status.free_bytes is not None
        assert 0 < status.free_bytes <= shutil.disk_usage(folder).total
        store.publish("now", b"4")
        wait_until(lambda: [record for record in caplog.records if "less than the mark of" in record.message], 20)
    assert len([record for record in caplog.records if "less than the mark of" in record.message]) == 1


def test_a_client_hears_the_same(folder: Path) -> None:
    with below(folder) as store, serve(store) as server, delaymq.connect(server.url) as client:
        with pytest.raises(DiskFull, match="bytes of the disk are free") as caught:
            client.publish("now", b"no")
        assert caught.value.errno == errno.ENOSPC
        status = client.status()
        assert (status.disk_full, status.room_low) == (True, False)

        def hears_the_same() -> bool:
            # It is looked up again each second, and what else is on the disk changes meanwhile.
            before, heard, after = (place.status().free_bytes for place in (store, client, store))
            assert before != after or heard == before
            return before == after

        wait_until(hears_the_same)


def test_a_coroutine_hears_the_same(folder: Path) -> None:
    async def publish() -> None:
        async with delaymq.open_async(folder, refuse_free_bytes=NEVER_FREE) as store:
            with pytest.raises(DiskFull):
                await store.publish("now", b"no")
            assert (await store.status()).disk_full

    asyncio.run(publish())


def test_the_command_line_has_the_settings(folder: Path) -> None:
    mark = ("--set", f"store.refuse_free_bytes={NEVER_FREE}")
    ended = command("publish", "now", "no", "--store", folder, *mark)
    assert (ended.returncode, ended.stdout) == (6, "")
    assert "publishes are refused until there are" in ended.stderr, "what the store reports"
    assert "refused while less than" in ended.stderr, "why this one is refused"
    shown = command("status", "--store", folder, *mark).stdout
    assert "TROUBLE: the disk is full, or below its mark: publishes are refused" in shown
    shown = command("status", "--store", folder, "--set", f"store.warn_free_bytes={NEVER_FREE}").stdout
    assert "of the disk are free: that is little" in shown
    wrong = ("--set", "store.warn_free_bytes=5", "--set", "store.refuse_free_bytes=6")
    assert "refuse_free_bytes: expected at most warn_free_bytes" in refused(2, "status", "--store", folder, *wrong)
    assert "store.refuse_free_bytes" in refused(2, "status", "--store", folder, "--set", "store.refuse_free_bytes=-1")


def test_a_server_shows_it_in_its_metrics(folder: Path) -> None:
    with Served(folder, "--set", f"store.refuse_free_bytes={NEVER_FREE}") as served:
        assert served.metric("disk_full") == 1
        assert served.metric("room_low") == 0
        assert served.metric("free_bytes") > 0


@pytest.mark.parametrize("wrong", [{"warn_free_bytes": 5, "refuse_free_bytes": 6}])
def test_marks_the_wrong_way_round(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        delaymq.open(tmp_path / "new", **wrong)
    assert caught.value.argument == "refuse_free_bytes"
