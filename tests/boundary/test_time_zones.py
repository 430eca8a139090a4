"""Series follow the newest rules of time zones that the machine has, and an update of them without a restart."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

import delaymq
import delaymq.testing
from crafting import wait_until
from delaymq import Outcome
from delaymq.testing import Clock

START = datetime(2030, 7, 1, tzinfo=UTC)


def compiled(hours_ahead: int) -> bytes:
    """A zone of RFC 9636, version 2, that is always so far ahead of UTC."""
    name = f"+{hours_ahead:02}\0".encode()
    block = b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, 0, 1, len(name))
    block += struct.pack(">iBB", hours_ahead * 3600, 0, 0) + name
    return block * 2 + f"\n<+{hours_ahead:02}>-{hours_ahead}\n".encode()


def put_database(folder: Path, version: str, hours_ahead: int) -> None:
    (folder / "Europe").mkdir(parents=True, exist_ok=True)
    (folder / "Europe" / "Paris").write_bytes(compiled(hours_ahead))
    (folder / "new").write_text(f"# version {version}\n")
    (folder / "new").rename(folder / "tzdata.zi")


def noon_of(store: delaymq.Store, name: str) -> time:
    found = store.recur("noon", b"", name=name, cron="0 12 * * *", zone="Europe/Paris")
    assert found.due is not None
    return found.due.time()


def test_a_newer_database_of_the_machine_is_followed_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "zones"
    monkeypatch.setenv("TZDIR", str(machine))
    with delaymq.open(tmp_path / "store", clock=Clock(START), durability="os") as store:
        assert str(machine) not in store.status().zones
        assert noon_of(store, "summer-time") == time(10)
        put_database(machine, "9998a", 3)
        assert noon_of(store, "new-rule") == time(9)
        with delaymq.testing.serve(store) as server, delaymq.connect(server.url) as client:
            assert store.status().zones == client.status().zones == f"9998a ({machine})"
        put_database(machine, "9998b", 4)
        series = {one.name: one for one in store.recurring()}
        before = series["new-rule"]
        assert before.due is not None
        assert before.due.time() == time(9), "what is pending keeps its time"
        assert before.receipt is not None
        assert store.cancel(before.receipt) is Outcome.DONE

        def due_next() -> datetime | None:
            return next(one for one in store.recurring() if one.name == before.name).due

        # The message after the cancelled one is stored by a background task.
        wait_until(lambda: due_next() is not None)
        assert due_next() == datetime.combine(before.due.date() + timedelta(days=1), time(8), UTC)


def test_an_old_or_broken_database_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = tmp_path / "zones"
    monkeypatch.setenv("TZDIR", str(machine))
    with delaymq.open(tmp_path / "store", clock=Clock(START), durability="os") as store:
        for version in ("1999a", "of another form", "9999a\0"):
            put_database(machine, version, 3)
            assert str(machine) not in store.status().zones
            assert noon_of(store, version.replace(" ", "-").replace("\0", "0")) == time(10)
        put_database(machine, "9999a", 3)
        (machine / "Europe" / "Paris").write_bytes(b"no zone")
        assert str(machine) in store.status().zones
        assert noon_of(store, "own") == time(10), "a zone that cannot be read there is the program's own"
