"""A store as the sink of a stream whose driver is killed, and that is run again: each message is stored once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import delaymq
from format_reader.checkpoints import read_checkpoint
from format_reader.store import numbered
from java import DRIVER_TIMEOUT_SECONDS, kill_driver_when, quick_java
from spark.test_write import ROWS, bodies, source_of, staged, streamed, swept

BATCH_ROWS = 700
TASKS = 2

DRIVER = """
import sys, time
from pathlib import Path
from delaymq.spark import local_session
from delaymq.spark.source import DelaymqDataSource
from delaymq.spark.write import StreamLoad, stream_writer_of
source, folder, checkpoint, moment, reached = sys.argv[1:]

def stays():
    Path(reached).touch()
    time.sleep(300)  # it is killed

def staging(batches):
    for batch in batches:
        yield batch
        if moment == "staging" and b"1000" in batch.column("body").to_pylist():
            stays()

class Staying(StreamLoad):
    def commit(self, messages, batchId):
        if moment == "all is staged" and batchId == 1:
            stays()
        super().commit(messages, batchId)
        if moment == "it is adopted" and batchId == 1:
            stays()

class Source(DelaymqDataSource):
    def streamWriter(self, schema, overwrite):
        found = stream_writer_of(self.options, schema, overwrite)
        found.__class__ = Staying
        return found

spark = local_session("local[{tasks}]")
spark.dataSource.register(Source)
rows = spark.readStream.format("delaymq").option("maxRowsPerTrigger", "{batch_rows}").load(source)
rows = rows.select("subject", "due", "body").repartition({tasks})
rows = rows.mapInArrow(staging, rows.schema)
into = rows.writeStream.format("delaymq").option("sinkId", "copy").option("checkpointLocation", checkpoint)
into.trigger(availableNow=True).start(folder).awaitTermination()
"""


def adopted(folder: Path) -> list[str]:
    """The files that the store's checkpoints name, by the second reader."""
    paths = numbered(folder / "checkpoints", "checkpoint").values()
    loads = [load for path in paths for load in read_checkpoint(path.read_bytes())["body"]["loads"]]
    return sorted({f"{load['staged_ms']:013}-{load['nonce'].hex()}.run" for load in loads})


def runs(folder: Path) -> list[str]:
    return [name for name in staged(folder) if name.endswith(".run")]


MOMENTS = {"staging": (1, TASKS - 1), "all is staged": (1, TASKS), "it is adopted": (2, TASKS)}
"""When a driver is killed in the second micro-batch: how many micro-batches are stored then, and how many of its runs
are whole.
"""


@pytest.mark.slow
@pytest.mark.timeout(len(MOMENTS) * DRIVER_TIMEOUT_SECONDS)
def test_each_message_is_stored_once_whenever_the_driver_is_killed(spark: Any, tmp_path: Path) -> None:
    """One query, whose drivers are killed one after the other, since each driver starts a Java."""
    assert spark.version  # where there is no Java, this is passed over
    source, folder, checkpoint = source_of(tmp_path), tmp_path / "store", tmp_path / "checkpoint"
    delaymq.open(folder).close()
    script, files = DRIVER.format(batch_rows=BATCH_ROWS, tasks=TASKS), TASKS
    for moment, (micro_batches, whole) in MOMENTS.items():
        reached, files = tmp_path / f"reached {moment}", files + whole

        def is_there(reached: Path = reached, files: int = files) -> bool:
            return reached.exists() and len(runs(folder)) >= files

        driver = [sys.executable, "-c", script, str(source), str(folder), str(checkpoint), moment, str(reached)]
        kill_driver_when(is_there, driver, tmp_path / "said", os.environ | quick_java())
        commits = [path.name for path in (checkpoint / "commits").glob("[0-9]*")]
        assert commits == ["0"], "the query knows of no other micro-batch"
        stored = bodies(folder)
        assert stored == list(range(len(stored)))
        assert (micro_batches - 1) * BATCH_ROWS < len(stored) <= micro_batches * BATCH_ROWS
        assert len(runs(folder)) == files
    streamed(spark, source, folder, checkpoint)
    assert bodies(folder) == list(range(ROWS))
    # What the killed tasks staged goes after a day, and what was staged again in vain has gone at once.
    with delaymq.open(folder) as store:
        store.checkpoint()
    left = set(staged(folder)) - set(adopted(folder))
    assert len([name for name in left if name.endswith(".run")]) == files - micro_batches * TASKS
    assert swept(folder) == adopted(folder)
    with delaymq.snapshot(folder) as snapshot:
        rows = pyarrow.table(snapshot.to_arrow_batches("message", columns=("body",)))["body"].to_pylist()
    assert sorted(map(int, rows)) == list(range(ROWS))
