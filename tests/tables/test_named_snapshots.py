"""A snapshot that is taken again by its name: the same moment, in any process, while its files are kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import InvalidArgument, MissingFile, WrongType, tables
from delaymq.tables import Snapshot
from tables import oracle, stores
from tables.test_while_writing import end_of, wait_for_more, written_to


def all_of(snapshot: Snapshot) -> dict[str, list[oracle.Row]]:
    """Every row of every table, and what the snapshot says of itself."""
    found = {table: oracle.read(snapshot.to_arrow_batches(table)) for table in tables.TABLES}
    names = ("name", "stream_id", "first_sequence", "end_sequence", "retired", "trusted", "tables")
    return found | {"itself": [{name: getattr(snapshot, name) for name in names}]}


@pytest.mark.parametrize("by", ["process", "server"])
def test_it_has_the_same_rows_whatever_is_written_meanwhile(tmp_path: Path, by: str) -> None:
    folder = tmp_path / "store"
    with written_to(folder, by), delaymq.snapshot(folder) as first:
        before = all_of(first)
        wait_for_more(folder, first.end_sequence)
        with delaymq.snapshot(folder, name=first.name) as again:
            wait_for_more(folder, end_of(folder))
            assert all_of(again) == before
        with delaymq.snapshot(folder) as other:
            assert (other.end_sequence > first.end_sequence, other.name != first.name) == (True, True)
    assert all(before[table] for table in tables.TABLES)


def used(folder: Path, checkpoints: int) -> delaymq.Store:
    store = delaymq.open(folder, durability="os", segment_bytes=stores.SEGMENT_BYTES, keep_finished=0)
    for turn in range(max(checkpoints, 1)):
        store.cancel_many(store.publish_many("gone", [bytes(1_000)] * 25, 300))
        store.publish("kept", b"%d" % turn, delay=300)
        if turn < checkpoints:
            store.checkpoint()
    return store


@pytest.mark.parametrize("checkpoints", [0, 1, 4])
def test_its_files_are_kept_by_the_pin_of_the_first_and_then_by_its_own(tmp_path: Path, checkpoints: int) -> None:
    folder = tmp_path / "store"
    used(folder, checkpoints).close()
    first = delaymq.snapshot(folder)
    before = all_of(first)
    used(folder, 4).close()
    with delaymq.snapshot(folder, name=first.name) as again:
        first.close()
        used(folder, 4).close()
        assert all_of(again) == before
    used(folder, 4).close()
    with pytest.raises(MissingFile) as caught:
        delaymq.snapshot(folder, name=first.name)
    assert caught.value.store == str(folder)
    assert str(caught.value.path).startswith("checkpoints/" if checkpoints else "log/")


def test_another_process_takes_it_again(tmp_path: Path) -> None:
    folder = stores.rich(tmp_path / "store")
    script = """if True:
        import sys, delaymq
        with delaymq.snapshot(sys.argv[1], name=sys.argv[2]) as snapshot:
            print(snapshot.end_sequence, sum(len(batch) for batch in snapshot.to_arrow_batches("pending")))
    """
    with delaymq.snapshot(folder) as first:
        with delaymq.open(folder) as store:
            store.publish("more", b"", delay=60)
        command = [sys.executable, "-c", script, str(folder), first.name]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        pending = sum(len(batch) for batch in first.to_arrow_batches("pending"))
        assert ended.stdout.split() == [str(first.end_sequence), str(pending)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda _: 7, WrongType),
        (bytes.fromhex, WrongType),
        (lambda _: "", InvalidArgument),
        (lambda _: "newest", InvalidArgument),
        (lambda name: name[:-2], InvalidArgument),
        (lambda name: name + "00", InvalidArgument),
        (lambda name: name[:40] + ("1" if name[40] == "0" else "0") + name[41:], InvalidArgument),
    ],
)
def test_what_is_no_name_is_refused(tmp_path: Path, change: Any, error: type[Exception]) -> None:
    folder = tmp_path / "store"
    delaymq.open(folder).close()
    with delaymq.snapshot(folder) as first, pytest.raises(error) as caught:
        delaymq.snapshot(folder, name=change(first.name))
    assert getattr(caught.value, "argument", None) == "name"
    assert delaymq.inspect(folder).pins == (), "no pin is left behind"


def test_the_name_of_another_store_is_refused_and_so_is_one_whose_history_went_another_way(tmp_path: Path) -> None:
    folder, copy = tmp_path / "store", tmp_path / "copy"
    delaymq.open(folder).close()
    delaymq.open(tmp_path / "other").close()
    shutil.copytree(folder, copy)
    with delaymq.open(folder) as store:
        store.publish("s", b"one", delay=60)
    with delaymq.open(copy) as store:
        store.publish("s", b"two", delay=60)
    with delaymq.snapshot(folder) as first:
        with pytest.raises(InvalidArgument, match="another store"):
            delaymq.snapshot(tmp_path / "other", name=first.name)
        with pytest.raises(InvalidArgument, match=r"the log at .* with check"):
            delaymq.snapshot(copy, name=first.name)
