"""A stage of the start or the end of a store that fails: nothing goes on running, and the folder is free."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq._asyncio import store as asyncio_store
from delaymq._store import lifecycle
from delaymq._store.recovery import CLAIMS
from faces import Face

OPENING = {"plain": delaymq.open, "asyncio": delaymq.open_async}


class StageError(Exception):
    """What a stage fails with here."""


def opened(face: str, folder: Path) -> Any:
    if face == "plain":
        return delaymq.open(folder, durability="os")

    async def open_() -> Any:
        return await delaymq.open_async(folder, durability="os")

    return asyncio.run(open_())


def nothing_is_left(folder: Path, threads: set[threading.Thread]) -> None:
    """The folder is free for this process and the next, and no thread goes on."""
    assert not CLAIMS.is_claimed(str(folder))
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
        assert not thread.is_alive(), thread
    assert delaymq.inspect(folder).open_in is None
    with delaymq.open(folder, durability="os") as store:
        store.publish("a", b"")


def failing_at(monkeypatch: pytest.MonkeyPatch, name: str, place: int, *, after: bool) -> None:
    """That stage fails, before it did anything or after it did all."""
    stages: tuple[lifecycle.Stage, ...] = getattr(lifecycle, name)
    stage = stages[place]

    def broken(node: lifecycle.Lifecycle) -> None:
        if after:
            stage(node)
        raise StageError

    monkeypatch.setattr(lifecycle, name, (*stages[:place], broken, *stages[place + 1 :]))


@pytest.mark.parametrize("face", OPENING)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("place", range(len(lifecycle.START)))
def test_a_stage_of_the_start_that_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, face: str, place: int, after: bool
) -> None:
    delaymq.open(folder, durability="os").close()
    threads = set(threading.enumerate())
    with monkeypatch.context() as patch:
        failing_at(patch, "START", place, after=after)
        with pytest.raises(StageError):
            opened(face, folder)
    nothing_is_left(folder, threads)


@pytest.mark.parametrize("place", range(len(lifecycle.STOP)))
def test_a_stage_of_the_end_that_fails_after_its_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    for name in Face.EMBEDDED:
        threads = set(threading.enumerate())
        face = Face(folder, name)
        with monkeypatch.context() as patch:
            failing_at(patch, "STOP", place, after=True)
            with pytest.raises(StageError):
                face.call(face.store.close)
        assert not face.store.is_open
        if face.runner:
            face.runner.close()
        nothing_is_left(folder, threads)


def test_a_loop_that_cannot_be_woken_leaves_no_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delaymq.open(folder, durability="os").close()
    threads = set(threading.enumerate())

    def broken(*_: object) -> None:
        raise StageError

    with monkeypatch.context() as patch:
        patch.setattr(asyncio_store, "Wakeups", broken)
        with pytest.raises(StageError):
            opened("asyncio", folder)
    nothing_is_left(folder, threads)
