"""The memory of the window is chosen in bytes, wherever a store is opened, and what is out of its bounds is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import delaymq
from commanding import command
from delaymq import InvalidArgument, WrongType
from serving import serving

SMALLEST, LARGEST = 128 << 10, 64 << 30
MESSAGES = 5_000  # of one moment, of which the smallest window has a fifth


def test_all_comes_through_the_smallest_window(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os", window_bytes=SMALLEST) as store:
        bodies = [b"%d" % number for number in range(MESSAGES)]
        store.publish_many("a", bodies, 1)
        store.checkpoint()
        came: list[bytes] = []
        with store.subscribe("a", group="g", in_flight_max=MESSAGES) as messages:
            for batch in messages.batches(1_000, wait=20):
                assert batch, f"{len(came)} came"
                came += [message.body for message in batch]
                messages.ack(batch)
                if len(came) == MESSAGES:
                    break
        assert came == bodies


@pytest.mark.parametrize("wrong", [0, SMALLEST - 1, LARGEST + 1, -1, 2**64])
def test_what_is_out_of_bounds_is_refused(tmp_path: Path, wrong: int) -> None:
    with pytest.raises(InvalidArgument) as refused:
        delaymq.open(tmp_path / "store", window_bytes=wrong)
    assert refused.value.argument == "window_bytes"

    async def opened() -> None:
        async with delaymq.open_async(tmp_path / "store", window_bytes=wrong):
            pass

    with pytest.raises(InvalidArgument, match="window_bytes"):
        asyncio.run(opened())
    assert not (tmp_path / "store" / "store.id").exists()


def test_bounds_are_accepted_and_other_types_are_not(tmp_path: Path) -> None:
    for right in (SMALLEST, LARGEST):
        delaymq.open(tmp_path / "store", window_bytes=right).close()
    with pytest.raises(WrongType):
        delaymq.open(tmp_path / "store", window_bytes=1e9)  # type: ignore[arg-type]


def test_a_server_takes_it_from_its_settings(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "store", "--set", f"store.window_bytes={SMALLEST}") as served,
        delaymq.connect(served.url) as client,
        client.subscribe("a", group="g") as messages,
    ):
        client.publish_many("a", [b"x"] * 3_000, 1)
        came = 0
        for batch in messages.batches(256, wait=20):
            assert batch, f"{came} came"
            came += len(batch)
            messages.ack(batch)
            if came == 3_000:
                break
    ended = command("publish", "a", "x", "--store", str(tmp_path / "store"), "--set", "store.window_bytes=1")
    assert ended.returncode != 0
    assert "window_bytes: expected 131072 to 68719476736, found 1" in ended.stderr
