"""The archive has each end once, however often a run is killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import delaymq
from commanding import arguments_of, environment
from delaymq import InvalidArgument
from delaymq.errors import Busy, StorageError
from delaymq.spark import LostBeforeRead, TableOptions
from delaymq.spark.jobs import archive, archived
from delaymq.spark.jobs.archive_folder import ArchiveFolder, Manifest
from delaymq.testing import Clock
from java import DRIVER_SECONDS, DRIVER_TIMEOUT_SECONDS

MANIFEST = Manifest(store="ab", run=1, rows=5, ended_ms=7, end_sequence=9, carried="c")


class Used:
    """A store that is used for a while between two runs."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.clock, self.options = path, Clock(), options
        self.bodies: list[bytes] = []

    def use(self, messages: int = 60, acknowledged: int = 20) -> None:
        """Publishes, cancels one in ten, and has a group acknowledge some, give one back and put one away."""
        options = {"durability": "os", "segment_bytes": 1 << 16, **self.options}
        with delaymq.open(self.path, clock=self.clock, **options) as store:
            bodies = [b"%05d" % (len(self.bodies) + number) for number in range(messages)]
            self.bodies += bodies
            receipts = [store.publish("orders", body, delay=60 * (place % 5)) for place, body in enumerate(bodies)]
            store.cancel_many(receipts[9::10])
            self.clock.advance(150)
            with store.subscribe("orders", group="g") as messages_of:
                for place in range(acknowledged):
                    message = messages_of.get(5)
                    assert message is not None
                    if place == 3:
                        message.nack(delay=1)
                    elif place == 5:
                        message.dead_letter("no")
                    else:
                        message.ack()
                messages_of.flush(5)
            store.checkpoint()

    def asked(self) -> TableOptions:
        return TableOptions(path=str(self.path))


def ended(path: Path) -> Counter[tuple[int, int | None, str]]:
    """What has ended, by the table itself."""
    with delaymq.snapshot(path) as snapshot:
        rows = [row for batch in snapshot.to_arrow_batches("deliveries") for row in batch_rows(batch)]
    unfinished = {"pending", "ready", "in_flight", "retrying", "unknown"}
    return Counter(
        (row["sequence"], row["group_number"], row["outcome"]) for row in rows if row["outcome"] not in unfinished
    )


def batch_rows(batch: Any) -> list[dict[str, Any]]:
    import pyarrow  # noqa: PLC0415

    rows: list[dict[str, Any]] = pyarrow.record_batch(batch).to_pylist()
    return rows


def there(spark: Any, folder: Path) -> Counter[tuple[int, int | None, str]]:
    rows = archived(spark, folder).select("sequence", "group_number", "outcome").collect()
    return Counter(tuple(row) for row in rows)


def test_each_end_is_there_once_whenever_it_came(spark: Any, tmp_path: Path) -> None:
    used, folder = Used(tmp_path / "store"), tmp_path / "archive"
    delaymq.open(used.path, clock=used.clock).close()
    assert archive(spark, used.asked(), folder).manifest.rows == 0
    for turn in range(2):
        used.use()
        done = archive(spark, used.asked(), folder)
        assert done.is_new
        assert done.manifest.missed == ()
        expected = ended(used.path)
        assert there(spark, folder) == expected
        assert sum(expected.values()) > 20 * turn
        again = archive(spark, used.asked(), folder)
        assert (again.is_new, again.manifest) == (False, done.manifest)
    rows = archived(spark, folder).filter("outcome = 'acknowledged'").collect()
    assert {bytes(row["body"]) for row in rows} <= set(used.bodies)
    assert all(row["due"] <= row["ready"] <= row["delivered"] <= row["acknowledged"] == row["ended"] for row in rows)
    assert {row["subject"] for row in rows} == {"orders"}
    assert {row["day"] for row in rows} == {row["ended"].date() for row in rows}


def test_content_is_kept_of_what_outlives_its_log(spark: Any, tmp_path: Path) -> None:
    used, folder = Used(tmp_path / "store", keep_finished=0), tmp_path / "archive"
    with delaymq.open(used.path, clock=used.clock, durability="os", segment_bytes=1 << 16, keep_finished=0) as store:
        store.publish("far", b"kept", delay=7_200)
        store.checkpoint()
        archive(spark, used.asked(), folder)
        first = 1
        while first == 1:
            store.cancel_many(store.publish_many("gone", [bytes(2_000)] * 10, 3_600))
            store.checkpoint()
            with delaymq.snapshot(used.path) as snapshot:
                first = snapshot.first_sequence
        used.clock.advance(7_300)
        with store.subscribe("far", group="g") as messages:
            message = messages.get(5)
            assert message is not None
            message.ack()
            messages.flush(5)
        store.checkpoint()
    done = archive(spark, used.asked(), folder)
    [row] = archived(spark, folder).filter("subject = 'far'").collect()
    assert (row["outcome"], bytes(row["body"])) == ("acknowledged", b"kept")
    assert done.manifest.missed, "cancels were retired between the runs"
    assert done.manifest.missed[0][1] == first


def test_the_archive_says_when_a_message_expired_and_what_became_of_it(spark: Any, tmp_path: Path) -> None:
    used, folder = Used(tmp_path / "store"), tmp_path / "archive"
    with delaymq.open(used.path, clock=used.clock, durability="os") as store:
        store.publish("offers", b"lasts")
        store.publish("offers", b"dropped", expires=60)
        store.publish("offers", b"dead", expires=60, on_expiry="dead_letter")
        # An earlier run carries the content of the messages that have not ended.
        assert archive(spark, used.asked(), folder).manifest.rows == 0
        used.clock.advance(60)
        with store.subscribe("offers", group="g") as messages:
            message = messages.get(5)
            assert message is not None
            message.ack()
            assert messages.get(0) is None
    archive(spark, used.asked(), folder)
    rows = archived(spark, folder).collect()
    found = {bytes(row["body"]): (row["outcome"], row["attempts"], row["on_expiry"]) for row in rows}
    assert found == {
        b"lasts": ("acknowledged", 1, None),
        b"dropped": ("expired", 0, "drop"),
        b"dead": ("expired_dead_letter", 0, "dead_letter"),
    }
    assert all((row["expires"] is None) == (row["on_expiry"] is None) for row in rows)
    seconds = {(row["expires"] - row["published"]).total_seconds() for row in rows if row["expires"] is not None}
    assert seconds == {60.0}


def killed(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["write_text", "rename"])
def test_a_run_that_is_killed_leaves_nothing_and_is_run_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    used, folder = Used(tmp_path / "store"), tmp_path / "archive"
    used.use()
    with monkeypatch.context() as patch:
        patch.setattr(Path, moment, killed)
        with pytest.raises(KeyboardInterrupt):
            archive(spark, used.asked(), folder)
    assert list((folder / "data").iterdir()) == []
    assert list((folder / "staging").iterdir()) != []
    used.use()
    assert archive(spark, used.asked(), folder).manifest.run == 1
    assert there(spark, folder) == ended(used.path)
    assert list((folder / "staging").iterdir()) == []
    assert len(list((folder / "carried").iterdir())) == 1


@pytest.mark.slow
@pytest.mark.timeout(DRIVER_TIMEOUT_SECONDS)
def test_a_process_that_is_killed_loses_and_doubles_nothing(spark: Any, connected: str, tmp_path: Path) -> None:
    """Its server lives on, and may still write what nobody will commit."""
    used, folder = Used(tmp_path / "store"), tmp_path / "archive"
    command = arguments_of(
        "spark", "archive", "--store", str(used.path), "--parquet", str(folder), "--master", connected
    )
    for place in ("staging", "carried", "data"):
        used.use()
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            end = time.monotonic() + DRIVER_SECONDS
            before = set((folder / place).glob("*"))
            while process.poll() is None and not set((folder / place).glob("*")) - before:
                assert time.monotonic() < end
                time.sleep(0.01)
            process.kill()
    done = archive(spark, used.asked(), folder)
    assert done.manifest.missed == ()
    assert there(spark, folder) == ended(used.path) != Counter()


def retiring(store: delaymq.Store, turns: int = 12) -> int:
    """Finishes so much that segments go where they may; the first sequence that is kept."""
    for _ in range(turns):
        store.cancel_many(store.publish_many("gone", [bytes(2_000)] * 10, 3_600))
        store.checkpoint()
    with delaymq.snapshot(store.path) as snapshot:
        return snapshot.first_sequence


def marks(path: Path) -> list[int]:
    return [int(one.name.split("-")[1]) for one in (path / "pins").glob("archived-*")]


def test_retention_waits_for_the_archive_where_it_is_told_to(spark: Any, tmp_path: Path) -> None:
    path, folder = tmp_path / "store", tmp_path / "archive"
    asked = TableOptions(path=str(path))
    with delaymq.open(path, durability="os", segment_bytes=1 << 16, keep_finished=0) as store:
        first = archive(spark, asked, folder, before_retire=True).manifest
        assert marks(path) == [first.end_sequence]
        assert retiring(store) <= first.end_sequence
        second = archive(spark, asked, folder, before_retire=True).manifest
        assert (second.missed, marks(path)) == ((), [second.end_sequence])
        assert second.rows == 120
        kept = retiring(store)
        assert first.end_sequence < kept <= second.end_sequence, "what is archived goes"
        third = archive(spark, asked, folder).manifest
        assert (third.missed, third.rows, marks(path)) == ((), 120, [])
        assert retiring(store) > third.end_sequence, "nothing is waited for"
    assert archive(spark, asked, folder).manifest.missed


def test_an_archive_is_of_one_store_that_goes_on(spark: Any, tmp_path: Path) -> None:
    used, folder = Used(tmp_path / "store"), tmp_path / "archive"
    used.use()
    shutil.copytree(used.path, tmp_path / "copy")
    used.use()
    archive(spark, used.asked(), folder)
    with pytest.raises(LostBeforeRead, match="was archived before"):
        archive(spark, TableOptions(path=str(tmp_path / "copy")), folder)
    delaymq.open(tmp_path / "other").close()
    with pytest.raises(InvalidArgument, match="one of the store in"):
        archive(spark, TableOptions(path=str(tmp_path / "other")), folder, before_retire=True)
    assert marks(tmp_path / "other") == []
    with pytest.raises(InvalidArgument, match="leaves out some of it"):
        archive(spark, TableOptions(path=str(used.path), subjects=("a",)), folder)
    with pytest.raises(InvalidArgument, match="an archive"):
        archived(spark, tmp_path / "nothing")


def test_a_snapshot_is_archived_as_it_was_and_none_from_before_the_archive(spark: Any, tmp_path: Path) -> None:
    used, folder = Used(tmp_path / "store"), tmp_path / "archive"
    used.use()
    expected = ended(used.path)
    with delaymq.snapshot(used.path) as first:
        used.use()
        asked = replace(used.asked(), snapshot=first.name)
        assert archive(spark, asked, folder).manifest.end_sequence == first.end_sequence
        assert there(spark, folder) == expected != ended(used.path)
        assert not archive(spark, asked, folder).is_new
        archive(spark, used.asked(), folder)
        with pytest.raises(InvalidArgument, match="not older than the archive"):
            archive(spark, asked, folder)
    assert there(spark, folder) == ended(used.path)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    folder = ArchiveFolder(tmp_path / "archive")
    with folder.held(), pytest.raises(Busy, match="another run"), ArchiveFolder(tmp_path / "archive").held():
        pass


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="an archive, or a folder that is empty"):
        ArchiveFolder(tmp_path)
    with pytest.raises(InvalidArgument, match="an archive, or a folder that is empty"):
        ArchiveFolder(tmp_path / "file")


def committed(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> ArchiveFolder:
    folder = ArchiveFolder(tmp_path / "archive")
    folder.commit(folder.staged()[0], MANIFEST)
    path = folder.data / "run=0000000001" / "_manifest.json"
    fields = json.loads(path.read_text("utf-8"))
    change(fields)
    path.write_text(json.dumps(fields), "utf-8")
    return folder


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = committed(tmp_path, lambda fields: fields.update(missed=[[1, 5], [7, 9]]))
    [found] = folder.manifests()
    assert (found.missed, found.carried, found.rows) == (((1, 5), (7, 9)), "c", 5)
    with folder.held():
        assert list((folder.path / "carried").iterdir()) == [folder.path / "carried" / "c"]


@pytest.mark.parametrize(
    "change",
    [lambda fields: fields.update(version=2), lambda fields: fields.pop("rows"), lambda fields: fields.update(more=1)],
)
def test_a_manifest_that_cannot_be_read_is_an_error(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(StorageError):
        committed(tmp_path, change).manifests()
