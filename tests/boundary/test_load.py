"""Bulk loads, in every face: what was staged is stored whole, once for each job, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import delaymq
from crafting import flip, wait_until
from delaymq import Corrupt, InvalidArgument, Loaded, MissingFile, NewerFormat, TooLarge, WrongType
from delaymq.loading import StagedRun, Stager, stage
from delaymq.testing import Clock
from faces import Face
from proxies import Relay
from serving import Served

LATER = timedelta(hours=1)
NONE: Any = None
LOAD = 218
HOUR_MS = 3_600_000


@pytest.fixture(params=Face.NAMES)
def face(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Face]:
    face = Face(tmp_path / "data", request.param)
    yield face
    face.close()


def table(count: int = 5, after: timedelta = LATER, subject: str = "consumed") -> pyarrow.Table:
    """Messages that are due one second after the other."""
    first = datetime.now(UTC) + after
    return pyarrow.table(
        {
            "subject": [subject] * count,
            "due": [first + timedelta(seconds=place) for place in range(count)],
            "body": [b"%d" % place for place in range(count)],
        }
    )


def load(face: Face, job: Any, runs: Any) -> Loaded:
    found: Loaded = face.call(lambda: face.store.load(job, runs))
    return found


def pending(face: Face) -> int:
    found: int = face.call(face.store.status).pending
    return found


def test_all_of_it_is_pending_under_sequences_of_its_own(face: Face) -> None:
    before = face.call(lambda: face.store.publish("consumed", b"before", delay=LATER))
    with Stager(face.folder, run_rows_max=3) as stager:
        stager.add(table(5))
        stager.add(table(4, subject="other"))
        runs = stager.finish()
    loaded = load(face, "job", runs)
    assert (loaded.count, loaded.again) == (9, False)
    assert loaded.first_sequence > before.sequence
    after = face.call(lambda: face.store.publish("consumed", b"after", delay=LATER))
    assert after.sequence >= loaded.first_sequence + 9
    counts = face.call(face.store.pending_counts)
    assert counts == {"consumed": 7, "other": 4}


def test_what_is_due_already_is_handed_over(face: Face) -> None:
    load(face, "job", stage(face.folder, table(5, after=-LATER)))
    bodies = set()
    for _ in range(5):
        message = face.call(lambda: face.messages.get(20))
        assert (message.subject, message.attempt, message.redelivered) == ("consumed", 1, False)
        bodies.add(message.body)
        face.call(message.ack)
    assert bodies == {b"%d" % place for place in range(5)}
    face.call(face.messages.flush)
    assert face.call(lambda: face.messages.get(0)) is None


def test_the_same_job_again_stores_nothing(face: Face) -> None:
    runs = stage(face.folder, table())
    first = load(face, "job", runs)
    assert load(face, "job", runs) == replace(first, again=True)
    assert load(face, "job", stage(face.folder, table())) == replace(first, again=True), "whichever runs it names"
    gone = [replace(runs[0], name=f"{int(time.time() * 1000):013}-{'0' * 32}.run")]
    assert load(face, "job", gone) == replace(first, again=True), "they may be gone"
    assert pending(face) == 5
    assert load(face, "job-2", stage(face.folder, table())).again is False
    assert pending(face) == 10
    with pytest.raises(InvalidArgument) as refused:
        load(face, "job", stage(face.folder, table(4)))
    assert refused.value.argument == "job"
    assert pending(face) == 10


def renamed(face: Face, run: StagedRun, staged_ms: int) -> StagedRun:
    """The same run as if it had been staged at another time."""
    name = f"{staged_ms:013}{run.name[13:]}"
    (face.folder / "loads" / run.name).rename(face.folder / "loads" / name)
    return replace(run, name=name)


def damaged(face: Face, run: StagedRun) -> list[StagedRun]:
    flip(face.folder / "loads" / run.name, run.bytes // 2)
    return [run]


def removed(face: Face, run: StagedRun) -> list[StagedRun]:
    (face.folder / "loads" / run.name).unlink()
    return [run]


def old(face: Face, run: StagedRun) -> list[StagedRun]:
    return [renamed(face, run, int(run.name[:13]) - 21 * HOUR_MS)]


BAD: dict[str, tuple[Callable[[Face, StagedRun], Any], type[Exception], str | None]] = {
    "no runs": (lambda _, __: [], InvalidArgument, "runs"),
    "one twice": (lambda _, run: [run, run], InvalidArgument, "runs"),
    "no rows": (lambda _, run: [replace(run, rows=0)], InvalidArgument, "runs"),
    "staged too long ago": (old, InvalidArgument, "runs"),
    "no run": (lambda _, run: [run, run.name], WrongType, "runs"),
    "no runs at all": (lambda _, __: 5, WrongType, "runs"),
    "text": (lambda _, run: run.name, WrongType, "runs"),
    "another folder": (lambda _, run: [replace(run, name=f"../loads/{run.name}")], InvalidArgument, "runs"),
    "a name that is none": (lambda _, run: [replace(run, name="identity")], InvalidArgument, "runs"),
    "no number": (lambda _, run: [replace(run, digest=NONE)], WrongType, "runs"),
    "a number too large": (lambda _, run: [replace(run, digest=1 << 32)], InvalidArgument, "runs"),
    "below 0": (lambda _, run: [replace(run, rows=-1)], InvalidArgument, "runs"),
    "too many": (lambda _, run: [run] * 4_097, TooLarge, "runs"),
    "another digest": (lambda _, run: [replace(run, digest=run.digest ^ 1)], Corrupt, None),
    "another length": (lambda _, run: [replace(run, bytes=run.bytes + 1)], Corrupt, None),
    "another count": (lambda _, run: [replace(run, rows=run.rows + 1)], Corrupt, None),
    "damage": (damaged, Corrupt, None),
    "no file": (removed, MissingFile, None),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_is_refused_and_nothing_is_stored(face: Face, kind: str) -> None:
    make, error, argument = BAD[kind]
    [run] = stage(face.folder, table())
    runs = make(face, run)
    files = {path.name for path in (face.folder / "loads").iterdir()}
    with pytest.raises(error) as raised:
        load(face, "job", runs)
    found: Any = raised.value
    if argument is None:
        assert found.path.startswith("loads/")
    else:
        assert found.argument == argument
    assert pending(face) == 0
    assert {path.name for path in (face.folder / "loads").iterdir()} == files, "files stay as they are"
    assert load(face, "job", stage(face.folder, table())).again is False, "the job was not begun"
    assert pending(face) == 5


@pytest.mark.parametrize("job", ["", "a b", "a/b", "a%b", "x" * 101, "a\nb", "\ud800", 5, None, b"job"])
def test_a_job_has_a_name(face: Face, job: Any) -> None:
    runs = stage(face.folder, table())
    with pytest.raises(InvalidArgument if isinstance(job, str) else WrongType) as refused:
        load(face, job, runs)
    assert refused.value.argument == "job"
    assert load(face, "x" * 100, runs).count == 5


def test_a_message_that_is_due_too_late_for_the_store_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with delaymq.open(folder, delay_max=timedelta(minutes=30)) as store:
        runs = stage(folder, table())
        with pytest.raises(InvalidArgument) as refused:
            store.load("job", runs)
        assert refused.value.argument == "due"
        assert store.status().pending == 0
        assert store.load("job", stage(folder, table(after=timedelta(minutes=1)))).count == 5


def test_a_run_of_a_later_release_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with delaymq.open(folder) as store:
        [run] = stage(folder, table())
        path = folder / "loads" / run.name
        content = bytearray(path.read_bytes())
        content[8] += 100  # the version stands behind eight bytes of magic
        path.write_bytes(content)
        with pytest.raises((NewerFormat, Corrupt)):
            store.load("job", [run])
        assert store.status().pending == 0


def test_a_job_is_known_after_the_next_open(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with delaymq.open(folder) as store:
        first = store.load("job", stage(folder, table()))
    with delaymq.open(folder) as store:
        assert store.load("job", stage(folder, table())) == replace(first, again=True)
        store.checkpoint()
    with delaymq.open(folder) as store:
        assert store.load("job", stage(folder, table())) == replace(first, again=True)
        assert store.status().pending == 5


def names_in(folder: Path) -> set[str]:
    return {path.name for path in (folder / "loads").iterdir()}


def test_what_nobody_adopted_goes_after_a_day_and_what_was_adopted_stays(tmp_path: Path) -> None:
    folder, clock = tmp_path / "data", Clock(datetime.now(UTC))
    with delaymq.open(folder, clock=clock) as store:
        adopted = stage(folder, table(after=timedelta(days=5)))
        store.load("job", adopted)
        left = stage(folder, table())
        store.checkpoint()
        kept = {run.name for run in (*adopted, *left)}
        assert names_in(folder) == kept
    clock.advance(timedelta(hours=30))
    with delaymq.open(folder, clock=clock) as store:
        store.checkpoint()
        assert names_in(folder) == {run.name for run in adopted}
        clock.advance(timedelta(days=5))
        with store.subscribe("consumed", group="g") as messages:
            assert {messages.get(20).body for _ in range(5)} == {b"%d" % place for place in range(5)}  # type: ignore[union-attr]


def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    """By itself: the job says that it is the same."""
    served = Face(tmp_path / "data", "client")
    relay = Relay(served.served[0].url)
    try:
        relay.lose_answer_of(LOAD)
        with delaymq.connect(relay.url) as client:
            loaded = client.load("job", stage(served.folder, table()))
        assert relay.lost.wait(20)
        assert len(relay.bodies(LOAD)) == 2
        assert (loaded.count, loaded.again) == (5, True)
        assert pending(served) == 5
    finally:
        relay.close()
        served.close()


def test_a_crash_between_adopting_and_answering_leaves_one_load(tmp_path: Path) -> None:
    with Served(tmp_path / "data") as served:
        relay = Relay(served.url)
        relay.lose_answer_of(LOAD, meanwhile=served.kill)
        with delaymq.connect(relay.url, timeout=1) as client:
            runs = stage(served.folder, table())
            with pytest.raises(delaymq.AmbiguousError):
                client.load("job", runs)
        relay.close()
        served.start()
        with delaymq.connect(served.url) as client:
            assert client.status().pending == 5
            loaded = client.load("job", runs)
            assert (loaded.count, loaded.again) == (5, True)
            assert client.status().pending == 5


def is_open(path: Path) -> bool:
    """True while this process reads the file."""
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed since
            opened.append(descriptor.readlink())
    return path in opened


def test_a_run_that_goes_while_others_are_checked_is_refused_and_the_store_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with delaymq.open(folder) as store:
        [small] = stage(folder, table(5))
        large = stage(folder, table(300_000))

        def remove() -> None:
            wait_until(lambda: is_open(folder / "loads" / large[0].name))
            (folder / "loads" / small.name).unlink()  # it was checked, and the other is not yet

        with ThreadPoolExecutor(1) as beside:
            removing = beside.submit(remove)
            with pytest.raises(MissingFile, match=small.name):
                store.load("job", [small, *large])
            removing.result()
        store.publish("consumed", b"it goes on", delay=3_600)
        assert store.status().pending == 1
        assert store.load("job", large).count == 300_000
