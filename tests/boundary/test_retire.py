"""What goes by an operator's choice, in both faces, and what holds the files."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq import Closed
from delaymq._store import retention
from delaymq._store.lifecycle import START, STOP
from delaymq.durations import Duration
from delaymq.inspection import InspectedFile


def test_what_expires_is_an_explicit_choice_and_is_reported(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with delaymq.open(folder, durability="os") as store:
        store.publish_many("metrics", [b""] * 3)
        store.publish_many("orders", [b""] * 2)
        store.start_group("metrics", "g")
        store.start_group("orders", "g")
        time.sleep(0.05)
    with (
        caplog.at_level(logging.INFO, "delaymq"),
        delaymq.open(folder, durability="os", expire={"metrics": 0.01, "absent": 1}) as store,
    ):
        until = time.monotonic() + 5
        while store.status().ready != 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert (store.status().ready, store.status().expired) == (2, 3)
        assert {group.subject: group.lag for group in store.groups()} == {"metrics": 0, "orders": 2}
    assert any("metrics" in record.getMessage() for record in caplog.records), caplog.text


def test_expiry_is_looked_after_again_and_on_a_loop_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SWEEP_INTERVAL_S", 0.05)
    monkeypatch.setattr("delaymq._asyncio.upkeep.SWEEP_INTERVAL_S", 0.05)

    async def main() -> None:
        async with delaymq.open_async(folder, durability="os", expire={"metrics": timedelta(milliseconds=1)}) as store:
            for turn in (1, 2):
                await store.publish("metrics", b"")
                for _ in range(500):
                    await asyncio.sleep(0.01)
                    if (await store.status()).expired == turn:
                        break
                assert (await store.status()).expired == turn

    asyncio.run(main())


def test_nothing_unfinished_goes_by_itself(folder: Path) -> None:
    with delaymq.open(folder, durability="os", keep_finished=0) as store:
        store.publish_many("metrics", [b""] * 3)
        store.checkpoint()
        store.checkpoint()
        assert store.status().ready == 3
        assert not store._lifecycle.expiry.has_work


def test_a_pin_is_a_file_until_it_is_released_or_its_time_is_over(folder: Path) -> None:
    pins = folder / "pins"
    with delaymq.open(folder, durability="os") as store:
        with store.pin(timedelta(hours=1)) as pin, store.pin(60) as other:
            assert len(list(pins.iterdir())) == 2
            assert timedelta(minutes=58) < pin.until - other.until < timedelta(minutes=60)
        assert list(pins.iterdir()) == []
        pin.release()
        store.pin(0.01)
        held = store.pin(3600)
        time.sleep(0.05)

    async def main() -> None:
        async with delaymq.open_async(folder, durability="os") as again:
            assert len(list(pins.iterdir())) == 1, "what is over went at the open"
            (await again.pin(60)).release()

    asyncio.run(main())
    held.release()
    with pytest.raises(Closed, match="open it"):
        store.pin(60)


def test_what_starts_and_ends_stands_in_two_lists() -> None:
    assert [stage.__name__ for stage in START] == ["_recover", "_claim", "_retire", "_watch"]
    assert [stage.__name__ for stage in STOP] == ["_close", "_log_remaining", "_release"]


def test_dead_letters_and_groups_on_a_loop(folder: Path) -> None:
    async def main() -> None:
        async with delaymq.open_async(folder, durability="os") as store:
            async with store.subscribe("a", group="g") as messages:
                await store.publish_many("a", [b"1", b"2"])
                first = await messages.get(5)
                assert first is not None
                first.dead_letter("no such order")
                second = await messages.get(5)
                assert second is not None
                messages.dead_letter([first, second], "nor this")
                await messages.flush(5)
                found = await store.dead_letters("a", "g")
                assert [(one.body, one.reason) for one in found] == [(b"1", "no such order"), (b"2", "nor this")]
                assert await store.redrive("a", "g", limit=1) == 1
                again = await messages.get(5)
                assert again is not None
                assert (again.body, again.attempt) == (b"1", 1)
                again.ack()
            assert [(group.name, group.dead_letters) for group in await store.groups()] == [("g", 1)]
            await store.reset_group("a", "g", "latest")
            await store.remove_group("a", "g")
            await store.start_group("a", "h", "latest")
            assert [subject.groups for subject in await store.subjects()] == [("h",)]

    asyncio.run(main())


def kept_segments(folder: Path, kept_of: Mapping[str, Duration]) -> dict[str, InspectedFile]:
    seen = delaymq.inspect(folder, keep_finished=0, keep_finished_of=kept_of)
    return {file.path: file for file in seen.files if file.kind == "segment" and file.written}


def finish(store: delaymq.Store, subject: str, count: int) -> None:
    """Publishes twenties of messages, takes all of them, and lets what is finished go."""
    with store.subscribe(subject, group="g") as messages:
        for _ in range(count // 20):
            store.publish_many(subject, [b"x" * 800] * 20)
        for _ in range(count // 20 * 20):
            message = messages.get(10)
            assert message is not None
            message.ack()
        messages.flush(10)
    for _ in range(3):
        store.checkpoint()


def test_a_subject_that_is_kept_longer_holds_its_files_and_is_named(folder: Path) -> None:
    kept_of = {"settlement": timedelta(days=30)}
    with delaymq.open(
        folder, durability="os", segment_bytes=1 << 16, keep_finished=0, keep_finished_of=kept_of
    ) as store:
        finish(store, "noise", 400)
        gone = "log/0000000002.segment"
        for _ in range(500):
            if not (folder / gone).exists():
                break
            time.sleep(0.01)
        assert not (folder / gone).exists()
        finish(store, "settlement", 200)
        finish(store, "noise", 200)
        kept = kept_segments(folder, kept_of)
        assert len(kept) > 4
        named = {path: file for path, file in kept.items() if file.kept_for == "settlement"}
        assert list(kept)[-1] in named, "what lies behind it is held by it, too"
        for file in named.values():
            assert file.kept_until is not None
            assert timedelta(days=29) < file.kept_until - datetime.now(UTC) < timedelta(days=31)
        assert {file.kept_for for file in kept_segments(folder, {}).values()} == {None}
    with delaymq.open(folder, durability="os", keep_finished=0) as store:
        finish(store, "noise", 20)
        for _ in range(500):
            if not set(kept) & set(kept_segments(folder, {})):
                break
            time.sleep(0.01)
        assert not set(list(kept)[:-1]) & set(kept_segments(folder, {})), "nothing of it was stored"
