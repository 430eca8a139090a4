"""The tables of a store in Spark equal what was stored, with every option as with the same filter."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext

import delaymq
import pyspark_delaymq
from crafting import flip
from delaymq import tables
from delaymq.spark import TableOptions, damages, map_segments, segment_rdd
from spark.conftest import MESSAGES, SUBJECTS
from spark.engines import Engine
from spark.sources import FailingOnce, Pruned
from tables import oracle, stores
from tables.test_while_writing import end_of, pending_by_oracle, wait_for_more, written_to


def loaded(engine: Engine, path: Path, **options: str) -> Any:
    # Sail does not hand over what `load` is given.
    return engine.session.read.format("delaymq").options(**options).option("path", str(path)).load()


def rows(frame: Any) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: row["sequence"])


def test_all_messages_are_rows(engine: Engine, filled: Path) -> None:
    found = rows(loaded(engine, filled, splitBytes="262144"))
    bodies = [b"%05d" % number * (number % 200) for number in range(MESSAGES)] + [b"with a key"]
    assert [bytes(row["body"]) for row in found] == bodies
    assert [row["subject"] for row in found][:MESSAGES] == [SUBJECTS[number % 3] for number in range(MESSAGES)]
    assert [row["key"] is None for row in found] == [True] * MESSAGES + [False]


def test_rows_are_what_the_second_reader_reads(engine: Engine, tmp_path: Path) -> None:
    """Two openings, keys, moved and cancelled messages, what recurs, tags and attributes."""
    expected = oracle.messages(stores.rich(tmp_path / "store"))
    found = [row.asDict() for row in rows(loaded(engine, tmp_path / "store", splitBytes="100000"))]
    assert [as_written(row, engine) for row in found] == expected != []


def as_written(row: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """Spark gives times without a zone, and bytes as a bytearray."""
    instead = {datetime: lambda found: found.replace(tzinfo=engine.zone).astimezone(UTC), bytearray: bytes}
    plain = {name: instead.get(type(found), lambda same: same)(found) for name, found in row.items()}
    return plain | {name: json.loads(plain[name]) for name in ("tags", "attributes")}


def test_the_schema_and_the_options_choose_columns(engine: Engine, filled: Path) -> None:
    reader = engine.session.read.format("delaymq").schema("sequence bigint, subject string")
    by_schema = reader.option("path", str(filled)).load()
    by_option = loaded(engine, filled, columns="subject,sequence")
    assert by_schema.columns == by_option.columns == ["sequence", "subject"]
    assert rows(by_schema) == rows(by_option) == rows(loaded(engine, filled).select("sequence", "subject"))


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"subject": "orders"}, "subject = 'orders'"),
        ({"subject": "orders,settlements"}, "subject IN ('orders', 'settlements')"),
        ({"subject": "nobody"}, "false"),
        ({"sequenceFrom": "1000", "sequenceTo": "1500"}, "sequence >= 1000 AND sequence < 1500"),
    ],
)
def test_an_option_equals_the_same_filter(
    engine: Engine, filled: Path, options: dict[str, str], condition: str
) -> None:
    chosen = loaded(engine, filled, columns="sequence,subject,published,due", splitBytes="262144", **options)
    whole = loaded(engine, filled, columns="sequence,subject,published,due")
    assert rows(chosen) == rows(whole.filter(condition))


TIMES = [
    *((log, option, option) for log in ("message", "pending", "deliveries") for option in ("due", "published")),
    *((log, "due", "due") for log in ("ready", "action")),
    ("ready", "published", "ready"),
    ("action", "published", "time"),
]
"""Tables, options, and the column of the table that each is of."""


@pytest.mark.parametrize(("log", "option_of", "column"), TIMES)
def test_an_option_of_a_time_equals_the_same_filter(
    engine: Engine, filled: Path, log: str, option_of: str, column: str
) -> None:
    asked = {"log": log, "columns": f"sequence,{column}", "splitBytes": "262144"}
    whole = loaded(engine, filled, **asked)
    late = whole.selectExpr(f"percentile_approx(unix_millis({column}), 0.75) AS late").first()["late"]
    text = datetime.fromtimestamp(late / 1000, UTC).isoformat()
    for option, condition in ((f"{option_of}From", ">="), (f"{option_of}To", "<")):
        found = rows(loaded(engine, filled, **asked, **{option: text}))
        assert found == rows(whole.filter(f"unix_millis({column}) {condition} {late}")) != []


def test_pending_is_what_is_scheduled_and_neither_cancelled_nor_dispatched(engine: Engine, filled: Path) -> None:
    found = rows(loaded(engine, filled, log="pending"))
    expected = sum(subject.pending for subject in delaymq.inspect(filled).subjects)
    assert len(found) == expected > 0


@pytest.mark.parametrize("log", [log for log in tables.TABLES if log != "message"])
def test_each_table_is_what_arrow_reads(spark: Any, filled: Path, log: str) -> None:
    frame = loaded(Engine(spark), filled, log=log, splitBytes="65536")
    with delaymq.snapshot(filled) as snapshot:
        expected = pyarrow.table(snapshot.to_arrow_batches(log))
    found = frame.toArrow()
    assert found.schema.names == expected.schema.names
    order = [(name, "ascending") for name in ("sequence", "number", "path") if name in expected.schema.names]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist() != []
    assert frame.count() == expected.num_rows


@pytest.mark.parametrize(
    ("log", "options", "condition"),
    [
        ("deliveries", {"subject": "orders", "sequenceFrom": "100"}, "subject = 'orders' AND sequence >= 100"),
        ("deliveries", {"sequenceTo": "900"}, "sequence < 900"),
        ("ready", {"subject": "orders,reminders"}, "subject IN ('orders', 'reminders')"),
        ("ready", {"sequenceFrom": "500", "sequenceTo": "700"}, "sequence >= 500 AND sequence < 700"),
        ("action", {"sequenceTo": "2000"}, "sequence < 2000"),
    ],
)
def test_an_option_of_another_table_equals_the_same_filter(
    engine: Engine, filled: Path, log: str, options: dict[str, str], condition: str
) -> None:
    chosen = loaded(engine, filled, log=log, columns="sequence,subject,due", splitBytes="65536", **options)
    whole = loaded(engine, filled, log=log, columns="sequence,subject,due")
    assert rows(chosen) == rows(whole.filter(condition))


def test_files_take_no_choice_of_rows(spark: Any, filled: Path) -> None:
    with pytest.raises(Exception, match="all files are rows of segments"):
        loaded(Engine(spark), filled, log="segments", subject="orders").count()


def wait_for_rows(path: Path, count: int) -> None:
    """Until so many messages are visible to whoever reads without the lock."""
    end = time.monotonic() + 20
    while True:
        with delaymq.snapshot(path) as snapshot:
            if sum(len(batch) for batch in snapshot.to_arrow_batches("message", columns=("sequence",))) == count:
                return
        assert time.monotonic() < end
        time.sleep(0.05)


def test_one_load_is_of_one_moment(spark: Any, tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os") as store:
        store.publish("a", b"first", delay=60)
        wait_for_rows(tmp_path / "store", 1)
        frame = loaded(Engine(spark), tmp_path / "store", columns="sequence,body")
        assert [bytes(row["body"]) for row in frame.collect()] == [b"first"]
        store.publish("a", b"second", delay=60)
        wait_for_rows(tmp_path / "store", 2)
        assert [bytes(row["body"]) for row in frame.collect()] == [b"first"]
        again = loaded(Engine(spark), tmp_path / "store", columns="sequence,body")
        assert [bytes(row["body"]) for row in rows(again)] == [b"first", b"second"]


def test_an_empty_store_has_no_rows(engine: Engine, tmp_path: Path) -> None:
    delaymq.open(tmp_path / "store").close()
    for log in ("message", "pending", "ready", "deliveries"):
        assert loaded(engine, tmp_path / "store", log=log).count() == 0


def damaged(path: Path) -> str:
    """A store of ten messages of which one is damaged; the name of its segment."""
    with delaymq.open(path, durability="os") as store:
        for number in range(10):
            store.publish("a", b"body %d" % number, delay=60)
    [segment] = [one for one in (path / "log").iterdir() if b"body 5" in one.read_bytes()]
    flip(segment, segment.read_bytes().index(b"body 5"))
    return segment.name


def test_damage_names_its_file_and_offset(engine: Engine, tmp_path: Path) -> None:
    segment = damaged(tmp_path / "store")
    frame = loaded(engine, tmp_path / "store", columns="sequence,body")
    with pytest.raises(Exception, match=f"DamagedPayload: .*{segment}"):
        frame.collect()
    reported = loaded(engine, tmp_path / "store", columns="sequence,body", onCorrupt="report")
    assert [bytes(row["body"]) for row in rows(reported)] == [b"body %d" % n for n in range(10) if n != 5]


@pytest.mark.parametrize("log", ["message", "pending", "deliveries"])
def test_every_payload_is_checked_where_that_is_asked(engine: Engine, tmp_path: Path, log: str) -> None:
    segment = damaged(tmp_path / "store")
    asked = {"log": log, "columns": "sequence,subject"}
    whole = rows(loaded(engine, tmp_path / "store", **asked))
    with pytest.raises(Exception, match=f"DamagedPayload: .*{segment}"):
        loaded(engine, tmp_path / "store", **asked, verification="full").collect()
    reported = rows(loaded(engine, tmp_path / "store", **asked, verification="full", onCorrupt="report"))
    # What became of a message is told by facts, not by its payload.
    assert (len(whole), len(reported)) == (10, 10 if log == "deliveries" else 9)
    assert [row for row in whole if row in reported] == reported


def test_damage_that_no_column_is_of_is_listed_where_every_payload_is_checked(spark: Any, tmp_path: Path) -> None:
    segment = damaged(tmp_path / "store")
    asked = TableOptions(path=str(tmp_path / "store"), columns=("sequence",))
    assert damages(spark, asked).count() == 0
    [found] = damages(spark, replace(asked, verification="full")).collect()
    assert found["path"] == f"log/{segment}"


def test_loads_of_one_snapshot_are_of_one_moment(engine: Engine, tmp_path: Path) -> None:
    """On Sail also two actions of one load, each of which plans anew."""
    folder = tmp_path / "store"
    with delaymq.open(folder, durability="os") as store:
        store.publish("a", b"first", delay=60)
        wait_for_rows(folder, 1)
        with delaymq.snapshot(folder) as snapshot:
            messages = loaded(engine, folder, snapshot=snapshot.name)
            assert messages.count() == 1
            store.publish("a", b"second", delay=60)
            wait_for_rows(folder, 2)
            assert messages.count() == 1
            pending = loaded(engine, folder, snapshot=snapshot.name, log="pending")
            assert [row["sequence"] for row in rows(pending)] == [row["sequence"] for row in rows(messages)]
        assert loaded(engine, folder).count() == 2


def test_damage_is_listed(spark: Any, tmp_path: Path) -> None:
    segment = damaged(tmp_path / "store")
    [found] = damages(spark, TableOptions(path=str(tmp_path / "store"), columns=("body",))).collect()
    assert found["path"] == f"log/{segment}"
    assert (found["offset"] is None, found["sequence"] is None) == (False, False)


def test_each_task_gets_the_batches_of_its_part(spark: Any, filled: Path) -> None:
    asked = TableOptions(path=str(filled), columns=("subject",), split_bytes=256 << 10)

    def counted(batches: Any) -> list[Counter[str]]:
        return [Counter(subject for batch in batches for subject in batch.column("subject").to_pylist())]

    parts = segment_rdd(spark.sparkContext, asked, counted).collect()
    assert len(parts) > 3
    assert sum(parts, Counter()) == {"orders": 1001, "reminders": 1000, "settlements": 1000}

    def summed(batches: Any) -> Any:
        rows = sum(batch.num_rows for batch in batches)
        yield pyarrow.RecordBatch.from_pydict({"rows": pyarrow.array([rows], pyarrow.int64())})

    frame = map_segments(spark, asked, summed, "rows bigint")
    assert sorted(row["rows"] for row in frame.collect()) == sorted(sum(part.values()) for part in parts)


def test_a_task_that_fails_is_run_again_and_has_the_same_rows(spark: Any, filled: Path, tmp_path: Path) -> None:
    """The first attempt of each ends in the middle of its part."""
    asked = TableOptions(path=str(filled), columns=("sequence",), split_bytes=256 << 10)
    tries = tmp_path / "tries"
    tries.mkdir()

    def failing(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        (tries / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        for batch in batches:
            yield batch
            if context.attemptNumber() == 0:
                raise RuntimeError("planned")

    expected = [row["sequence"] for row in rows(loaded(Engine(spark), filled, columns="sequence"))]
    assert [row["sequence"] for row in rows(map_segments(spark, asked, failing, "sequence bigint"))] == expected
    tried = sorted(one.name for one in tries.iterdir())
    assert tried == [f"{number}-{attempt}" for number in range(len(tried) // 2) for attempt in (0, 1)]
    assert len(tried) > 6
    again = segment_rdd(spark.sparkContext, asked, failing)
    assert sorted(found for batch in again.collect() for found in batch.column("sequence").to_pylist()) == expected


def test_a_task_of_the_source_that_fails_is_run_again(spark: Any, filled: Path) -> None:
    expected = rows(loaded(Engine(spark), filled))
    spark.dataSource.register(FailingOnce)
    frame = spark.read.format("failing_once").option("splitBytes", "262144").load(str(filled))
    assert rows(frame) == expected
    assert frame.rdd.getNumPartitions() > 3


def test_the_source_is_found_by_its_name_alone() -> None:
    """PySpark looks for modules named `pyspark_…` in a session that nobody has registered anything with."""
    assert pyspark_delaymq.DefaultSource.name() == "delaymq"


def test_nothing_is_damaged_in_what_is_whole(spark: Any, filled: Path) -> None:
    assert damages(spark, TableOptions(path=str(filled), split_bytes=256 << 10)).collect() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"log": "messages"}, "log"),
        ({"offset": "1"}, "option"),
        ({"sequenceFrom": "9", "sequenceTo": "1"}, "end_seq"),
        ({"verification": "none"}, "headers or full"),
        ({"verification": "full", "log": "segments"}, "no record is read"),
        ({"snapshot": "newest"}, "the name of a snapshot"),
    ],
)
def test_what_is_refused_is_said_by_the_engine(
    engine: Engine, filled: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        loaded(engine, filled, **options).count()


def test_what_is_no_store_is_said_by_the_engine(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no store here"):
        loaded(engine, tmp_path).count()


@pytest.mark.parametrize("schema", ["sequence int", "nothing string", "subject string, sequence bigint"])
def test_a_schema_of_another_table_is_refused(engine: Engine, filled: Path, schema: str) -> None:
    with pytest.raises(Exception, match="schema"):
        engine.session.read.format("delaymq").schema(schema).option("path", str(filled)).load().count()


@pytest.mark.xfail(
    raises=AssertionError,
    reason="Spark hands the filters of one scan to all scans of a load: so options prune, and filters do not",
)
def test_filters_of_one_scan_are_not_those_of_another(spark: Any) -> None:
    spark.dataSource.register(Pruned)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("pruned").load()
        assert frame.filter("number = 3").count() == 1
        assert frame.count() == 4
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize("by", ["process", "server"])
def test_a_store_that_is_written_to_meanwhile(spark: Any, tmp_path: Path, by: str) -> None:
    """Each load is what the log came to at one moment while Spark planned."""
    engine, folder = Engine(spark), tmp_path / "store"
    with written_to(folder, by):
        begin = end_of(folder)
        messages = [as_written(row.asDict(), engine) for row in rows(loaded(engine, folder, sequenceTo=str(begin)))]
        columns = "sequence,subject,due,body,published_sequence"
        pending = [as_plain(row, engine) for row in loaded(engine, folder, log="pending", columns=columns).collect()]
        end = end_of(folder)
        wait_for_more(folder, end)
    assert messages == oracle.messages(folder, end_sequence=begin)
    pending.sort(key=lambda row: (row["due"], row["sequence"]))
    ends = [one.batch.next_sequence for one in oracle.visible_batches(folder)]
    newest = max(row["sequence"] for row in pending)
    moments = [one for one in ends if max(begin, newest + 1) <= one <= end]
    assert begin < end
    assert any(pending == chosen(pending_by_oracle(folder, one), pending[0].keys()) for one in moments)


def as_plain(row: Any, engine: Engine) -> dict[str, Any]:
    found: dict[str, Any] = row.asDict()
    return found | {"due": found["due"].replace(tzinfo=engine.zone).astimezone(UTC), "body": bytes(found["body"])}


def chosen(found: list[oracle.Row], names: Iterable[str]) -> list[oracle.Row]:
    return [{name: row[name] for name in names} for row in found]
