"""What Spark writes into a store: all of a DataFrame or micro-batch by one load, whatever is run again or killed."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import delaymq
import delaymq.testing
from crafting import wait_until
from delaymq import InvalidArgument, loading
from delaymq.errors import Locked
from delaymq.spark import write
from delaymq.spark.write import BatchLoad, LoadOptions
from delaymq.testing import Clock
from java import DRIVER_TIMEOUT_SECONDS, kill_driver_when, quick_java
from proxies import Relay
from serving import Served
from spark import sources
from spark.engines import Engine

LOAD = 218
ROWS = 3_000
MESSAGES = (
    "'orders' AS subject",
    "timestamp'2035-01-01 00:00:00' + make_dt_interval(0, 0, 0, id % 600) AS due",
)
BODY = "CAST(id AS string) AS body"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    delaymq.open(tmp_path / "store").close()
    return tmp_path / "store"


def messages(spark: Any, rows: int = ROWS, parts: int = 3, more: tuple[str, ...] = (BODY,)) -> Any:
    """A DataFrame of messages; its tasks make the rows, so that they are the same again."""
    return spark.range(0, rows, 1, parts).selectExpr(*MESSAGES, *more)


def save(frame: Any, folder: Path, **options: str) -> None:
    frame.write.format("delaymq").mode("append").options(**options).save(str(folder))


def bodies(folder: Path) -> list[int]:
    """The bodies that are pending, by the table, in order."""
    with delaymq.snapshot(folder) as snapshot:
        batches = snapshot.to_arrow_batches("pending", columns=("body",))
        return sorted(int(body) for batch in batches for body in pyarrow.record_batch(batch).column("body").to_pylist())


def staged(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "loads").glob("*"))


def swept(folder: Path, after: timedelta = timedelta(hours=26)) -> list[str]:
    """What lies there when a day is over and the store was opened and closed."""
    clock = Clock(datetime.now(UTC) + after)
    with delaymq.open(folder, clock=clock) as store:
        store.checkpoint()
    return staged(folder)


def assert_nothing_is_stored(folder: Path, tasks: int = 3) -> None:
    """A task that still runs when another one fails may stage its rows after the job ended; the store removes them."""
    assert bodies(folder) == []
    assert len(staged(folder)) < tasks
    wait_until(lambda: swept(folder) == [])


def test_all_of_a_dataframe_is_stored_once_for_each_job(engine: Engine, folder: Path) -> None:
    frame = messages(engine.session)
    save(frame, folder, jobId="first")
    assert bodies(folder) == list(range(ROWS))
    adopted = staged(folder)
    save(frame, folder, jobId="first")
    assert (bodies(folder), staged(folder)) == (list(range(ROWS)), adopted), "what was staged again is gone"
    save(frame, folder)
    assert len(bodies(folder)) == 2 * ROWS, "without a job each write is one of its own"
    save(frame.limit(0), folder, jobId="nothing")
    assert len(bodies(folder)) == 2 * ROWS


def test_a_server_takes_it_while_it_serves(spark: Any, folder: Path) -> None:
    more = (BODY, "concat('m-', id) AS message_id", "array('a', 'b') AS tags", "map('k', 'v') AS attributes")
    with delaymq.open(folder, durability="os") as store, delaymq.testing.serve(store) as server:
        with pytest.raises(Exception, match="where a server has it open, say its address"):
            save(messages(spark), folder)
        assert staged(folder) == []
        save(messages(spark, more=more), folder, jobId="job", address=server.url)
        save(messages(spark, more=more), folder, jobId="job", address=server.url)
        assert store.status().pending == ROWS
    assert bodies(folder) == list(range(ROWS))
    with delaymq.snapshot(folder) as snapshot:
        columns = ("message_id", "tags", "attributes")
        [row, *_] = pyarrow.table(snapshot.to_arrow_batches("pending", columns=columns)).to_pylist()
    assert row["message_id"].startswith("m-")
    assert (row["tags"], row["attributes"]) == ('["a", "b"]', '{"k": "v"}')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "path"),
        ({"jobid": "a b"}, "job"),
        ({"jobId": ""}, "jobId"),
        ({"sinkId": "s"}, "sinkId"),
        ({"onBadRows": "fail"}, "onBadRows"),
        ({"ignoreOthers": "maybe"}, "ignoreOthers"),
        ({"timeoutSeconds": "0"}, "timeoutSeconds"),
        ({"timeoutSeconds": "soon"}, "timeoutSeconds"),
        ({"tokenFile": "t"}, "tokenFile"),
        ({"dueBefore": "2030-01-01"}, "dueBefore"),
    ],
)
def test_an_option_that_cannot_be_is_named(folder: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        write.writer_of({"path": str(folder), **options}, SCHEMA, overwrite=False)


SCHEMA = pyarrow.schema(
    [("subject", pyarrow.string()), ("due", pyarrow.timestamp("us", "UTC")), ("body", pyarrow.string())]
)


def test_what_is_no_load_is_refused(folder: Path, tmp_path: Path) -> None:
    place = {"path": str(folder)}
    with pytest.raises(InvalidArgument, match="append"):
        write.writer_of(place, SCHEMA, overwrite=True)
    with pytest.raises(InvalidArgument, match="append"):
        write.stream_writer_of({**place, "sinkId": "s"}, SCHEMA, overwrite=True)
    with pytest.raises(InvalidArgument, match="sinkId"):
        write.stream_writer_of(place, SCHEMA, overwrite=False)
    with pytest.raises(InvalidArgument, match="jobId"):
        write.stream_writer_of({**place, "jobId": "j"}, SCHEMA, overwrite=False)
    with pytest.raises(InvalidArgument, match="none"):
        write.writer_of({}, SCHEMA, overwrite=False)
    with pytest.raises(InvalidArgument, match="subjekt"):
        write.writer_of(place, SCHEMA.append(pyarrow.field("subjekt", pyarrow.string())), overwrite=False)
    with pytest.raises(delaymq.MissingFile, match="there is no store here"):
        write.writer_of({"path": str(tmp_path)}, SCHEMA, overwrite=False)
    assert staged(folder) == []


def test_rows_that_are_no_messages_are_put_aside_where_that_is_asked(spark: Any, folder: Path, tmp_path: Path) -> None:
    wrong = messages(spark).withColumn("due", sources_expr("IF(CAST(body AS int) % 1000 = 7, NULL, due)"))
    for _ in range(2):
        save(wrong, folder, jobId="job", onBadRow=str(tmp_path / "bad"))
        found = pyarrow.parquet.read_table(tmp_path / "bad").sort_by("body").to_pylist()
        assert [(row["body"], row["bad_task"], row["bad_row"], row["bad_column"]) for row in found] == [
            ("1007", 1, 7, "due"),
            ("2007", 2, 7, "due"),
            ("7", 0, 7, "due"),
        ]
        assert all(row["reason"].startswith("due") for row in found)
        assert len(bodies(folder)) == ROWS - 3
    assert not list((tmp_path / "bad").glob(".*.parquet"))
    save(wrong.limit(5), folder, jobId="other", onBadRow=str(tmp_path / "bad"))
    assert len(pyarrow.parquet.read_table(tmp_path / "bad")) == 3


def sources_expr(text: str) -> Any:
    from pyspark.sql.functions import expr  # noqa: PLC0415 - for classic sessions

    return expr(text)


def test_a_task_that_fails_is_run_again_and_leaves_nothing(spark: Any, folder: Path) -> None:
    frame = messages(spark)
    save(frame.mapInArrow(sources.failing_once, frame.schema), folder, jobId="job")
    assert bodies(folder) == list(range(ROWS))
    assert len(staged(folder)) == 3, "one run of each task, and none of the attempts that failed"


def test_a_job_that_is_given_up_stores_nothing_and_leaves_nothing_for_long(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    frame = messages(spark).withColumn("due", sources_expr("IF(body = '7', NULL, due)"))
    failing = frame.mapInArrow(sources.failing_always, frame.schema)
    with pytest.raises(Exception, match="planned"):
        save(failing, folder, jobId="job", onBadRow=str(tmp_path / "bad"))
    assert_nothing_is_stored(folder)
    assert list((tmp_path / "bad").glob("load-*")) == [], "nobody reads what was put aside"


def batches(count: int = 100) -> list[pyarrow.RecordBatch]:
    due = datetime(2035, 1, 1, tzinfo=UTC)
    rows = [{"subject": "orders", "due": due, "body": str(number)} for number in range(count)]
    return [pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA)]


def test_of_two_attempts_of_a_task_the_one_that_won_is_stored(folder: Path) -> None:
    """A speculative one may come to its end as well, and is told to nobody."""
    writer = write.writer_of({"path": str(folder), "jobId": "job"}, SCHEMA, overwrite=False)
    won, lost = writer.write(iter(batches())), writer.write(iter(batches()))
    assert won != lost
    writer.commit([won])
    assert bodies(folder) == list(range(100))
    assert len(staged(folder)) == 2
    assert len(swept(folder)) == 1
    assert bodies(folder) == list(range(100))


def test_an_abort_behind_a_lost_answer_removes_nothing_that_may_be_stored(folder: Path) -> None:
    writer = write.writer_of({"path": str(folder), "jobId": "job"}, SCHEMA, overwrite=False)
    parts = [writer.write(iter(batches())), writer.write(iter(batches()))]
    writer.commit(list(parts))
    again = BatchLoad(LoadOptions(path=str(folder), job="job"), SCHEMA)
    again.abort(list(parts))
    assert len(staged(folder)) == 2
    with delaymq.open(folder) as store:
        assert store.status().pending == 200
    other = write.writer_of({"path": str(folder)}, SCHEMA, overwrite=False)
    other.abort([other.write(iter(batches())), None])
    assert len(staged(folder)) == 2


def test_a_load_that_is_refused_leaves_nothing(folder: Path) -> None:
    writer = write.writer_of({"path": str(folder), "jobId": "job"}, SCHEMA, overwrite=False)
    parts = [writer.write(iter(batches())), writer.write(iter(batches(3)))]
    with delaymq.open(folder), pytest.raises(Locked):
        writer.commit(list(parts))
    assert staged(folder) == []


def test_two_loads_of_one_job_at_the_same_time_are_one(folder: Path) -> None:
    with delaymq.open(folder, durability="os") as store, delaymq.testing.serve(store) as server:
        place = {"path": str(folder), "jobId": "job", "address": server.url}
        writers = [write.writer_of(place, SCHEMA, overwrite=False) for _ in range(4)]
        told = [[writer.write(iter(batches())), writer.write(iter(batches()))] for writer in writers]
        with ThreadPoolExecutor(4) as pool:
            for one in [pool.submit(writer.commit, list(parts)) for writer, parts in zip(writers, told, strict=True)]:
                one.result()
        assert store.status().pending == 200
    assert bodies(folder) == sorted([*range(100), *range(100)])
    assert len(swept(folder)) == 2


def test_a_crash_between_adopting_and_answering_leaves_one_load(spark: Any, tmp_path: Path) -> None:
    with Served(tmp_path / "store") as served:
        relay = Relay(served.url)

        def crash() -> None:
            served.kill()
            served.start()

        relay.lose_answer_of(LOAD, meanwhile=crash)
        save(messages(spark), served.folder, jobId="job", address=relay.url)
        assert relay.lost.is_set()
        assert len(relay.bodies(LOAD)) == 2
        relay.close()
        with delaymq.connect(served.url) as client:
            assert client.status().pending == ROWS
    assert bodies(tmp_path / "store") == list(range(ROWS))


def source_of(tmp_path: Path) -> Path:
    """A store whose messages are the rows of a stream."""
    with delaymq.open(tmp_path / "source", durability="os", segment_bytes=1 << 16) as store:
        for first in range(0, ROWS, 100):
            store.publish_many("orders", [b"%d" % number for number in range(first, first + 100)], 36_000)
    return tmp_path / "source"


def streamed(spark: Any, source: Path, folder: Path, checkpoint: Path, **options: str) -> None:
    """Runs a query to the end of what there is."""
    rows = spark.readStream.format("delaymq").option("maxRowsPerTrigger", "700").load(str(source))
    into = rows.select("subject", "due", "body").writeStream.format("delaymq").options(sinkId="copy", **options)
    query = into.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(folder))
    assert query.awaitTermination(240)


def test_a_micro_batch_that_is_played_again_is_stored_once(spark: Any, folder: Path, tmp_path: Path) -> None:
    source, checkpoint = source_of(tmp_path), tmp_path / "checkpoint"
    streamed(spark, source, folder, checkpoint)
    assert bodies(folder) == list(range(ROWS))
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) > 3
    # As if the driver had been killed between the commit of the sink and that of the query.
    commits[-1].unlink()
    for left in (checkpoint / "commits").glob(f".{commits[-1].name}.*"):
        left.unlink()
    with delaymq.open(source, durability="os") as store:
        store.publish_many("orders", [b"%d" % number for number in range(ROWS, ROWS + 100)], 36_000)
    with delaymq.open(folder, durability="os") as store, delaymq.testing.serve(store) as server:
        streamed(spark, source, folder, checkpoint, address=server.url)
    assert bodies(folder) == list(range(ROWS + 100))


DRIVER = """
import sys, time
from pathlib import Path
from delaymq.spark import local_session, register
folder, stop = sys.argv[1:]

def stopping(batches):
    from pyspark import TaskContext
    yield from batches
    while TaskContext.get().partitionId() == 1 and Path(stop).exists():
        time.sleep(0.05)

spark = local_session("local[2]")
register(spark)
frame = spark.range(0, {rows}, 1, 3).selectExpr(*{messages!r}, "CAST(id AS string) AS body")
frame = frame.mapInArrow(stopping, frame.schema)
frame.write.format("delaymq").mode("append").option("jobId", "job").save(folder)
"""


@pytest.mark.slow
@pytest.mark.timeout(DRIVER_TIMEOUT_SECONDS)
def test_a_driver_that_is_killed_leaves_nothing_half_done(spark: Any, folder: Path, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    stop.touch()
    assert spark.version  # where there is no Java, this is passed over
    script = DRIVER.format(rows=ROWS, messages=MESSAGES)
    driver = [sys.executable, "-c", script, str(folder), str(stop)]

    def are_two_staged() -> bool:
        return len([name for name in staged(folder) if name.endswith(".run")]) >= 2

    kill_driver_when(are_two_staged, driver, tmp_path / "said", os.environ | quick_java())
    assert bodies(folder) == []
    assert staged(folder) != []
    assert swept(folder) == []
    assert bodies(folder) == []


def test_a_micro_batch_has_a_job_of_its_own_and_files_that_spark_can_read(folder: Path, tmp_path: Path) -> None:
    place = {"path": str(folder), "sinkId": "query", "onBadRow": str(tmp_path / "bad"), "checkpointLocation": "c"}
    naive = pyarrow.RecordBatch.from_pylist([{"subject": "a/b", "due": None, "body": "bad"}], schema=SCHEMA)
    for _ in range(2):
        for number in (3, 4):
            writer = write.stream_writer_of(place, SCHEMA, overwrite=False)
            writer.commit([writer.write(iter([*batches(10), naive])), writer.write(iter(batches(5)))], number)
    assert bodies(folder) == sorted([*range(10), *range(5)] * 2)
    assert sorted(path.name for path in (tmp_path / "bad").iterdir()) == [
        "load-query%3A3-00000.parquet",
        "load-query%3A4-00000.parquet",
    ]
    with delaymq.open(folder) as store:
        assert store.load("query:3", loading.stage(folder, pyarrow.Table.from_batches(batches(15)))).again
