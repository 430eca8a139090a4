"""A store as a stream: each message once, whatever is killed, and never past what is durable."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

import delaymq
from delaymq import InvalidArgument
from delaymq.spark.plan import TableOptions
from delaymq.spark.stream import LostBeforeRead, StreamOptions, TableStream
from java import DRIVER_TIMEOUT_SECONDS, kill_driver_when, quick_java
from tables import stores

PUBLISHED = 2_000


def filled(path: Path, first: int = 0, count: int = PUBLISHED) -> Path:
    with delaymq.open(path, durability="os", segment_bytes=1 << 16) as store:
        for begin in range(first, first + count, 100):
            store.publish_many("orders", [b"%05d" % number for number in range(begin, begin + 100)], 3600)
    return path


def stream_of(path: Path, *, asked: dict[str, Any] | None = None, **stream: Any) -> TableStream:
    options = {"columns": ("sequence",)} | (asked or {})
    return TableStream(TableOptions(path=str(path), **options), StreamOptions(**stream))


def sequences(stream: TableStream, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return [] if not batches else pyarrow.Table.from_batches(batches).column("sequence").to_pylist()


def at(stream: TableStream, sequence: int) -> dict[str, Any]:
    return {**stream.initialOffset(), "sequence": sequence}


def test_batches_follow_each_other_and_are_the_same_again(tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    stream = stream_of(path)
    whole = sequences(stream, stream.initialOffset(), stream.latestOffset(stream.initialOffset(), ReadAllAvailable()))
    assert len(whole) == PUBLISHED
    for limit in (ReadMaxRows(300), ReadMaxBytes(20_000)):
        found: list[list[int]] = []
        start = stream.initialOffset()
        while (end := stream.latestOffset(start, limit)) != start:
            found.append(sequences(stream, start, end))
            assert sequences(stream_of(path), start, end) == found[-1], "a replay has the same rows"
            start = end
        assert [one for batch in found for one in batch] == whole
        assert len(found) > 3
        if isinstance(limit, ReadMaxRows):
            assert max(len(batch) for batch in found) <= limit.max_rows
        assert json.loads(json.dumps(start)) == start
    stream.stop()


def test_facts_that_are_no_messages_are_a_stream_too(tmp_path: Path) -> None:
    path = filled(tmp_path / "store", count=300)
    with delaymq.open(path, durability="os") as store:
        receipts = store.publish_many("orders", [b""] * 50, 60)
        for receipt in receipts:
            store.cancel(receipt)
    with delaymq.snapshot(path) as snapshot:
        expected = pyarrow.table(snapshot.to_arrow_batches("action", columns=("sequence",)))["sequence"].to_pylist()
    assert len(expected) > 50
    stream, found = stream_of(path, asked={"log": "action"}), []
    start = stream.initialOffset()
    while (end := stream.latestOffset(start, ReadMaxRows(100))) != start:
        found += sequences(stream, start, end)
        start = end
    assert found == expected
    stream.stop()


def test_a_batch_of_so_many_bytes_is_the_same_however_much_of_the_log_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = stream_of(filled(tmp_path / "store", count=8_000))
    start = instance.initialOffset()

    def ends() -> list[int]:
        found, at_sequence = [], start
        while (end := instance.latestOffset(at_sequence, ReadMaxBytes(150_000))) != at_sequence:
            found.append(end["sequence"])
            at_sequence = end
        return found

    whole = ends()
    assert len(whole) > 3
    for facts in (1, 7, 300):
        monkeypatch.setattr("delaymq.spark.stream.PLANNED_FACTS", facts)
        assert ends() == whole


def test_fewer_than_are_waited_for_are_no_batch(tmp_path: Path) -> None:
    stream = stream_of(filled(tmp_path / "store"))
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadMinRows(100 * PUBLISHED)) == start
    assert len(sequences(stream, start, stream.latestOffset(start, ReadMinRows(PUBLISHED)))) == PUBLISHED


def test_what_comes_after_the_query_was_begun_is_not_waited_for(tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    stream = stream_of(path)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    filled(path, PUBLISHED, 100)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert len(sequences(stream, start, end)) == PUBLISHED
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    later = stream_of(path)
    assert len(sequences(later, end, later.latestOffset(end, ReadAllAvailable()))) == 100


def test_a_query_begins_where_it_is_told(tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    latest = stream_of(path, begin="latest")
    start = latest.initialOffset()
    assert latest.latestOffset(start, ReadAllAvailable()) == start
    filled(path, PUBLISHED, 100)
    assert len(sequences(latest, start, latest.latestOffset(start, ReadAllAvailable()))) == 100
    middle = stream_of(path, begin=500)
    found = sequences(middle, middle.initialOffset(), middle.latestOffset(middle.initialOffset(), ReadAllAvailable()))
    assert found[0] == 500


def retired(path: Path) -> Path:
    """A store whose first messages are gone."""

    with delaymq.open(path, durability="os", segment_bytes=1 << 16, keep_finished=0) as store:
        end = time.monotonic() + 60
        while True:
            with delaymq.snapshot(path) as snapshot:
                if snapshot.first_sequence > 1:
                    break
            store.cancel_many(store.publish_many("gone", [bytes(2_000)] * 10, 3600))
            store.checkpoint()
            assert time.monotonic() < end
        store.publish_many("kept", [b"later"] * 10, 3600)
    return path


def test_what_was_retired_before_it_was_read_is_an_error_unless_told_otherwise(tmp_path: Path) -> None:
    path = retired(tmp_path / "store")
    strict, lenient = stream_of(path), stream_of(path, is_loss_an_error=False)
    first = strict.initialOffset()["sequence"]
    assert first > 1
    with pytest.raises(LostBeforeRead, match=f"the log begins at sequence {first}, and 1 is to be read next"):
        strict.latestOffset(at(strict, 1), ReadAllAvailable())
    end = lenient.latestOffset(at(lenient, 1), ReadAllAvailable())
    with pytest.raises(LostBeforeRead):
        strict.partitions(at(strict, 1), end)
    assert sequences(lenient, at(lenient, 1), end)[0] >= first


def test_holes_are_lost_rows_where_they_came_since_the_query_began_and_else_they_are_passed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    delaymq.open(path, segment_bytes=4 << 20).close()
    mark = path / "pins" / "archived-0-test"
    mark.touch()  # what an archive waits for stays
    stores.hollow(path)
    strict, lenient = stream_of(path), stream_of(path, is_loss_an_error=False)
    start = at(strict, 3)  # what comes before may go with the first segment
    end = strict.latestOffset(start, ReadAllAvailable())
    assert lenient.latestOffset(at(lenient, 3), ReadAllAvailable()) == end
    strict.stop()
    lenient.stop()
    mark.unlink()
    with delaymq.open(path, durability="os", segment_bytes=4 << 20, keep_finished=0) as store:
        for _ in range(3):
            store.publish("other", b"")
            store.checkpoint()
    with delaymq.snapshot(path) as snapshot:
        assert snapshot.first_sequence <= 3 < min(first for first, _ in snapshot.retired)
        kept = pyarrow.table(snapshot.to_arrow_batches("message", columns=("sequence",)))["sequence"].to_pylist()
    with pytest.raises(LostBeforeRead):
        strict.partitions(start, end)
    assert sequences(lenient, start, end) == [one for one in kept if one < end["sequence"]]
    later = stream_of(path)
    start = later.initialOffset()
    assert sequences(later, start, later.latestOffset(start, ReadAllAvailable())) == kept


def test_a_store_that_has_less_than_was_read_is_an_error(tmp_path: Path) -> None:
    stream = stream_of(filled(tmp_path / "store"))
    with pytest.raises(LostBeforeRead, match="and 1000000 was read before"):
        stream.latestOffset(at(stream, 1_000_000), ReadAllAvailable())
    with pytest.raises(LostBeforeRead, match="the store ends"):
        stream.partitions(stream.initialOffset(), at(stream, 1_000_000))


def test_the_checkpoint_of_another_store_is_refused(tmp_path: Path) -> None:
    one, other = stream_of(filled(tmp_path / "one", 0, 100)), stream_of(filled(tmp_path / "other", 0, 100))
    with pytest.raises(InvalidArgument, match="checkpointLocation"):
        one.latestOffset(other.initialOffset(), ReadAllAvailable())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "first"}, "startingOffset: expected earliest, latest or a sequence"),
        ({"startingOffset": "-1"}, "startingOffset"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger: expected a whole number, 1 or more"),
        ({"maxBytesPerTrigger": "many"}, "maxBytesPerTrigger"),
        ({"maxRowsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "none beside maxRowsPerTrigger"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: expected true or false"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        StreamOptions.taken(options)


def test_what_is_no_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="one that can be streamed"):
        stream_of(tmp_path, asked={"log": "pending"})
    for option, said in (
        ({"first_sequence": 5}, "startingOffset"),
        ({"snapshot": "0a"}, "startingOffset"),
        ({"pushes_filters": True}, "pushdown"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            stream_of(tmp_path, asked=option)
    found, others = StreamOptions.taken({"startingoffset": "latest", "FailOnDataLoss": "false", "log": "message"})
    assert (found, others) == (StreamOptions(begin="latest", is_loss_an_error=False), {"log": "message"})


def run_to_files(spark: Any, store: Path, folder: Path, **options: str) -> list[str]:
    """Runs a query to the end of what there is; the bodies that its files have."""
    frame = spark.readStream.format("delaymq").options(**options).load(str(store))
    query = frame.select("body").writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    assert query.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination(240)
    return [bytes(row["body"]).decode() for row in spark.read.parquet(str(folder / "rows")).collect()]


def numbers(count: int) -> list[str]:
    return [f"{number:05}" for number in range(count)]


def test_a_query_to_files_has_each_message_once(spark: Any, tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    assert sorted(run_to_files(spark, path, tmp_path, maxRowsPerTrigger="600")) == numbers(PUBLISHED)
    filled(path, PUBLISHED, 300)
    assert sorted(run_to_files(spark, path, tmp_path, maxBytesPerTrigger="30000")) == numbers(PUBLISHED + 300)


DRIVER = """
import sys
from delaymq.spark import local_session, register
store, folder = sys.argv[1:]
spark = local_session("local[2]", spark__sql__shuffle__partitions="2")
register(spark)
frame = spark.readStream.format("delaymq").option("maxRowsPerTrigger", "100").load(store).select("body")
query = frame.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint").start(folder + "/rows")
query.awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.timeout(DRIVER_TIMEOUT_SECONDS)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(spark: Any, tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    driver = [sys.executable, "-c", DRIVER, str(path), str(tmp_path)]

    def are_three_done() -> bool:
        return len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) > 2

    kill_driver_when(are_three_done, driver, tmp_path / "said", os.environ | quick_java())
    files = list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    assert len(files) < PUBLISHED // 100, "the kill came too late to show anything"
    assert sorted(run_to_files(spark, path, tmp_path)) == numbers(PUBLISHED)
