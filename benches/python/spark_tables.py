"""A store read in Spark, beside Parquet of the same rows in the same run: `make bench-spark`.

Each figure is the seconds of one action, medians of interleaved runs; the limit is the same action on Parquet (zstd),
written from the same table. Spark is the same for both, on two cores. With `--jobs` it is an audit or an archive of a
store of which most is consumed, and the limit is to read all its files once and do nothing with them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import delaymq
from delaymq.bench.machine import Moment, meanwhile
from delaymq.bench.row import Case, Figures, summary
from delaymq.spark import TableOptions, local_session, map_segments, read_table, register
from delaymq.spark.jobs import archive, audit
from delaymq.spark.plan import planned
from delaymq.spark.schemas import schema_of

BODY_BYTES = 160  # with the rest of its record 244, as where the budgets were measured
SUBJECTS = 10
BATCH = 1_000
RUNS = 5
WARM_UP_RUNS = 4  # what is compiled and started once is no part of a figure: Java goes on compiling for some runs
TASKS = 128
CONSUMED = 8
Action = Callable[[], object]
Pair = tuple[Figures, Figures]


def main() -> None:
    """Fills a store, writes its table as Parquet, and prints a row for each action."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--bodies", choices=BODIES, default="repeated", help="repeated: a number 20 times; random: nothing to compress"
    )
    parser.add_argument("--jobs", nargs="+", choices=("audit", "archive"), help="these instead")
    chosen = parser.parse_args()
    if chosen.jobs:
        jobs(chosen.jobs, chosen.messages, chosen.runs)
        return
    with tempfile.TemporaryDirectory(prefix="delaymq-bench-") as temporary:
        store, parquet = Path(temporary) / "store", Path(temporary) / "parquet"
        fill(store, chosen.messages, body_of=BODIES[chosen.bodies])
        settings = {"spark__driver__memory": "4g", "spark__sql__shuffle__partitions": "2"}
        spark = local_session("local[2]", **settings)
        register(spark)
        spark.dataSource.register(ReadySource)
        spark.read.format("delaymq").load(str(store)).write.option("compression", "zstd").parquet(str(parquet))
        for name, ours, limit in actions(spark, store, parquet):
            print(measured(name, ours, limit, chosen.messages, chosen.runs), flush=True)
        print(beside_ready(spark, store, Path(temporary) / "ready", chosen.messages, chosen.runs), flush=True)
        print(per_task(spark, store, chosen.messages, chosen.runs), flush=True)
        print(loaded(spark, parquet, Path(temporary), chosen.messages, chosen.runs), flush=True)
        spark.stop()


def repeated(number: int) -> bytes:
    """A body that Parquet makes a twentieth of."""
    return number.to_bytes(8, "big") * (BODY_BYTES // 8)


def drawn(number: int) -> bytes:
    """A body that nothing makes smaller, the same in each run."""
    return Random(number).randbytes(BODY_BYTES)


BODIES: dict[str, Callable[[int], bytes]] = {"repeated": repeated, "random": drawn}


def fill(path: Path, messages: int, due_at_once: int = 0, body_of: Callable[[int], bytes] = repeated) -> None:
    """Messages of ten subjects in turn, all pending but those of the first so many subjects, as of a checkpoint: what
    is behind the last one is applied by each plan, some 0.15 s for a million facts.
    """
    with delaymq.open(path, durability="os") as store:
        for first in range(0, messages, BATCH):
            bodies = [body_of(number) for number in range(first, first + BATCH)]
            subject = first // BATCH % SUBJECTS
            store.publish_many(f"subject.{subject}", bodies, 0 if subject < due_at_once else 3_600)
        store.checkpoint()


def jobs(names: list[str], messages: int, runs: int) -> None:
    """Fills a store, has most of it consumed, and prints a row for each of these jobs."""
    with tempfile.TemporaryDirectory(prefix="delaymq-bench-") as temporary:
        store, numbers = Path(temporary) / "store", count()
        fill(store, messages, due_at_once=CONSUMED)
        consume(store)
        spark = local_session("local[2]", spark__driver__memory="4g", spark__sql__shuffle__partitions="2")
        asked = TableOptions(path=str(store))
        whole: dict[str, Action] = {
            "audit": lambda: audit(spark, asked),
            "archive": lambda: archive(spark, asked, Path(temporary) / f"archive-{next(numbers)}"),
        }
        for name in names:
            job, before = whole[name], Moment.now()
            job()  # what is compiled and started once is no part of it
            pairs = [(seconds(job), seconds(lambda: read_files(store))) for _ in range(runs)]
            print(row(name, pairs, messages, "all files of the store are read once", before), flush=True)
        spark.stop()


def consume(path: Path) -> None:
    """A group takes all that is due."""
    with delaymq.open(path, durability="os") as store:
        for subject in range(CONSUMED):
            with store.subscribe(f"subject.{subject}", group="bench", in_flight_max=5_000) as consumed:
                for batch in consumed.batches(BATCH, wait=0.5):
                    if not batch:
                        break
                    for message in batch:
                        message.ack()
                consumed.flush(60)


def read_files(store: Path) -> None:
    """All bytes of all files, once."""
    for path in store.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass


def actions(spark: SparkSession, store: Path, parquet: Path) -> Iterator[tuple[str, Action, Action]]:
    """Each action on a store, and on Parquet."""

    def rows(*columns: str) -> DataFrame:
        reader = spark.read.format("delaymq")
        return (reader.option("columns", ",".join(columns)) if columns else reader).load(str(store))

    def same() -> DataFrame:
        return spark.read.parquet(str(parquet))

    def read(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def counted(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        found = sum(batch.num_rows for batch in batches)
        yield pyarrow.RecordBatch.from_pydict({"rows": pyarrow.array([found], pyarrow.int64())})

    whole = TableOptions(path=str(store))

    def counted_in_tasks() -> object:
        asked = TableOptions(path=str(store), columns=("sequence",))
        return map_segments(spark, asked, counted, "rows bigint").agg({"rows": "sum"}).collect()

    yield "count", lambda: rows("sequence").count(), lambda: same().count()
    yield "count in the tasks", counted_in_tasks, lambda: same().count()
    yield (
        "group by subject",
        lambda: rows("subject").groupBy("subject").count().collect(),
        lambda: same().groupBy("subject").count().collect(),
    )
    yield "read, a row once (read_table)", lambda: read(read_table(spark, whole)), lambda: read(same())
    yield "read", lambda: read(rows()), lambda: read(same())


class ReadySource(DataSource):
    """A source of Python whose tasks have a batch of the table in memory, and give it again and again."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "ready"

    def schema(self) -> str:
        """That of the table."""
        return schema_of("message", None)

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 - of the interface
        """`path` has the batch, and `batches` says how often each of two tasks gives it."""
        return ReadyReader(self.options["path"], int(self.options["batches"]))


class ReadyReader(DataSourceReader):
    """Gives what it has."""

    def __init__(self, path: str, batches: int) -> None:
        self._path, self._batches = path, batches

    def partitions(self) -> list[InputPartition]:
        """One for each core."""
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: InputPartition | None) -> Iterator[pyarrow.RecordBatch]:  # noqa: ARG002
        """The same batch each time."""
        with pyarrow.ipc.open_stream(self._path) as stream:
            batch = stream.read_next_batch()
        for _ in range(self._batches):
            yield batch


def beside_ready(spark: SparkSession, store: Path, ready: Path, messages: int, runs: int) -> str:
    """All of a table, beside as many rows that are ready: what any source of Python costs in Spark."""
    with delaymq.snapshot(store) as snapshot:
        batch = pyarrow.RecordBatchReader.from_stream(snapshot.to_arrow_batches("message")).read_next_batch()
    with pyarrow.OSFile(str(ready), "wb") as file, pyarrow.ipc.new_stream(file, batch.schema) as stream:
        stream.write_batch(batch)
    frames = spark.read.format("ready").option("batches", str(messages // 2 // batch.num_rows))

    def read(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def ours() -> None:
        read(spark.read.format("delaymq").load(str(store)))

    def limit() -> None:
        read(frames.load(str(ready)))

    for _ in range(WARM_UP_RUNS):
        ours()
        limit()
    before = Moment.now()
    pairs = [(seconds(ours), seconds(limit)) for _ in range(runs)]
    return row("read, beside what is ready", pairs, messages, "a source of Python that gives a batch it has", before)


def measured(name: str, ours: Action, limit: Action, messages: int, runs: int) -> str:
    """A row, as one line of JSON."""
    for _ in range(WARM_UP_RUNS):
        ours()
        limit()
    before = Moment.now()
    pairs = [(seconds(ours), seconds(limit)) for _ in range(runs)]
    return row(name, pairs, messages, "the same action on Parquet (zstd) of the same rows", before)


def loaded(spark: SparkSession, parquet: Path, folder: Path, messages: int, runs: int) -> str:
    """All messages of the table loaded into an empty store, staged and adopted, beside as many written as Parquet."""
    frame, numbers = spark.read.parquet(str(parquet)).select("subject", "due", "body"), count()

    def ours() -> Figures:
        into = folder / f"loaded-{next(numbers)}"
        delaymq.open(into).close()
        taken = seconds(lambda: frame.write.format("delaymq").mode("append").save(str(into)))
        shutil.rmtree(into)
        return taken

    def limit() -> Figures:
        into = frame.write.mode("overwrite").option("compression", "zstd")
        return seconds(lambda: into.parquet(str(folder / "written")))

    for _ in range(WARM_UP_RUNS):
        ours()
        limit()
    before, pairs = Moment.now(), [(ours(), limit()) for _ in range(runs)]
    return row("load", pairs, messages, "the same rows written as Parquet (zstd), not synced", before)


def per_task(spark: SparkSession, store: Path, messages: int, runs: int) -> str:
    """What a task costs that has almost nothing to do, beside one of Spark alone."""
    whole = sum(part.range.bytes for part in planned(TableOptions(path=str(store))))

    def ours() -> None:
        frame = spark.read.format("delaymq").option("columns", "sequence").option("splitBytes", str(whole // TASKS))
        found = frame.load(str(store))
        tasks.append(found.rdd.getNumPartitions())
        found.write.format("noop").mode("overwrite").save()

    def limit() -> None:
        spark.range(0, TASKS, 1, TASKS).write.format("noop").mode("overwrite").save()

    tasks: list[int] = []
    before, pairs = Moment.now(), list[Pair]()
    ours()
    for _ in range(runs):
        mine = seconds(ours)["value"] / tasks[-1]
        pairs.append(({"value": mine}, {"value": seconds(limit)["value"] / TASKS}))
    return row(f"a task, with its share of {tasks[-1]}", pairs, messages, "a task of Spark with one number", before)


def row(name: str, pairs: list[Pair], messages: int, limit_words: str, before: Moment) -> str:
    """Medians of both, with the spread and the load."""
    case = Case(
        bench="spark",
        unit="s",
        durability="none",
        n=messages,
        pairs=lambda _: pairs,
        limit_words=limit_words,
        higher_is_better=False,
        detail={"call": name, "body_bytes": BODY_BYTES, "cores": 2},
    )
    ours, limits = [mine for mine, _ in pairs], [limit for _, limit in pairs]
    machine = meanwhile(before, Moment.now())
    # Spark's own processes would be told as others.
    told = {name: value for name, value in machine.items() if name != "others"}
    return summary(case, ours, limits, told).to_json()


def seconds(action: Action) -> Figures:
    """How long an action takes."""
    begun = time.perf_counter()
    action()
    return {"value": time.perf_counter() - begun}


if __name__ == "__main__":
    main()
