"""Spark Connect: a client in a process of its own, without Java, of a server that is another."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import delaymq
from delaymq.spark import MissingSpark
from delaymq.spark.environment import require_connect
from delaymq.spark.session import session_at
from spark.conftest import MESSAGES

CLIENT = """
import json
import sys

import pyarrow
from pyspark.sql import SparkSession

from delaymq.spark import TableOptions, damages, map_segments, read_table, register
from delaymq.spark.jobs import forecast, told

address, path = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
register(spark)
frame = spark.read.format("delaymq").option("splitBytes", "262144").load(path)
asked = TableOptions(path=path, columns=("sequence",), split_bytes=262_144)


def counted(batches):
    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({"rows": pyarrow.array([rows], pyarrow.int64())})


parts = [row["rows"] for row in map_segments(spark, asked, counted, "rows bigint").collect()]
pending = spark.read.format("delaymq").option("log", "pending").load(path)
due = told(forecast(spark, TableOptions(path=path, log="pending")))
found = {
    "session": type(spark).__module__,
    "subjects": {row["subject"]: row["count"] for row in frame.groupBy("subject").count().collect()},
    "parts": parts,
    "read": read_table(spark, asked).count(),
    "pending": pending.count(),
    "due": sum(one.messages for one in due),
    "damages": damages(spark, asked).count(),
}
spark.stop()
print(json.dumps(found))
"""


def test_a_client_reads_tables_and_gives_each_task_its_own_part(connected: str, filled: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", CLIENT, connected, str(filled)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["subjects"] == {"orders": 1001, "reminders": 1000, "settlements": 1000}
    assert len(found["parts"]) > 3
    assert sum(found["parts"]) == found["read"] == MESSAGES + 1
    assert found["pending"] == found["due"] > 0
    assert found["damages"] == 0


WRITER = """
import sys

from pyspark.sql import SparkSession

from delaymq.spark import register

address, path, store, files = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
register(spark)
due = spark.range(20).selectExpr("'by.client' AS subject", "timestamp'2035-01-01 00:00:00' AS due", "'' AS body")
for _ in range(2):
    due.write.format("delaymq").mode("append").option("jobId", "of-the-client").save(store)
rows = spark.readStream.format("delaymq").option("maxRowsPerTrigger", "700").load(path)
to_files = rows.select("sequence").writeStream.format("parquet").option("checkpointLocation", files + "-checkpoint")
to_files.trigger(availableNow=True).start(files).awaitTermination()
messages = rows.selectExpr("'by.stream' AS subject", "due", "body").writeStream.format("delaymq")
messages = messages.option("sinkId", "stream-of-the-client").option("checkpointLocation", store + "-checkpoint")
messages.trigger(availableNow=True).start(store).awaitTermination()
spark.stop()
"""


def test_a_client_loads_and_streams(connected: str, filled: Path, tmp_path: Path) -> None:
    store, files = tmp_path / "store", tmp_path / "files"
    delaymq.open(store).close()
    command = [sys.executable, "-W", "error", "-c", WRITER, connected, str(filled), str(store), str(files)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr
    sequences = pyarrow.parquet.read_table(files).column("sequence").to_pylist()
    assert len(set(sequences)) == len(sequences) == MESSAGES + 1
    with delaymq.snapshot(store) as snapshot:
        subjects = pyarrow.table(snapshot.to_arrow_batches("message", columns=("subject",))).column("subject")
    assert Counter(subjects.to_pylist()) == {"by.client": 20, "by.stream": MESSAGES + 1}


def test_what_a_client_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_connect()
    found = importlib.util.find_spec

    def without(name: str) -> Any:
        if name == "google.rpc":
            raise ModuleNotFoundError(name)
        return None if name == "grpc" else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(MissingSpark, match=r'^grpc, google.rpc not installed: pip install "delaymq\[spark-connect\]"$'):
        session_at("sc://127.0.0.1:1")
