"""One load of several stores: the rows of each, with the path that they came by."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import LessThan

import delaymq
from crafting import flip, place_of
from delaymq import InvalidArgument, tables
from delaymq.spark import TableOptions, map_segments
from delaymq.spark.partition import PartOfTable
from delaymq.spark.plan import planned
from delaymq.spark.source import PushingReader
from spark.engines import Engine

HOUR = 3_600
WANTED = ["sequence", "subject", "due", "store"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three stores, whose sequences are the same; nothing is in the last one."""
    found = [tmp_path_factory.mktemp("several") / name for name in ("one", "two", "none")]
    for number, folder in enumerate(found):
        with delaymq.open(folder, durability="os") as store:
            for subject in ("orders", "reminders") if number < 2 else ():
                store.publish_many(subject, [b"body %d" % at for at in range(100 * number + 150)], HOUR)
    return list(map(str, found))


def loaded(engine: Engine, paths: list[str], **options: str) -> Any:
    # Sail does not hand over what `load` is given.
    return engine.session.read.format("delaymq").options(**options).option("paths", json.dumps(paths)).load()


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.select(*WANTED).collect()), key=lambda row: (row[-1], row[0]))


def test_the_rows_are_those_of_each_store(engine: Engine, folders: list[str]) -> None:
    whole = loaded(engine, folders)
    each = [loaded(engine, [folder]) for folder in folders]
    assert rows(whole) == sorted((row for one in each for row in rows(one)), key=lambda row: (row[-1], row[0]))
    assert Counter(row[-1] for row in rows(whole)) == {folders[0]: 300, folders[1]: 500}
    assert whole.count() == 800


def test_what_load_is_given_is_what_the_option_says(spark: Any, folders: list[str]) -> None:
    given = spark.read.format("delaymq").load(folders)
    assert given.columns == [*spark.read.format("delaymq").load(folders[0]).columns, "store"]
    assert rows(given) == rows(loaded(Engine(spark), folders)) != []


@pytest.mark.parametrize("log", [log for log in tables.TABLES if log != "message"])
def test_each_table_is_of_all_of_them(spark: Any, filled: Path, folders: list[str], log: str) -> None:
    paths = [str(filled), folders[1]]
    read = spark.read.format("delaymq").option("log", log)
    found = {row["store"]: row["count"] for row in read.load(paths).groupBy("store").count().collect()}
    counts = {path: read.load(path).count() for path in paths}
    assert found == {path: count for path, count in counts.items() if count}
    assert found[str(filled)] > 0


@pytest.mark.parametrize("columns", ["subject", "store", "subject,store", "store,sequence"])
def test_columns_and_a_schema_choose_whether_the_store_is_told(
    engine: Engine, folders: list[str], columns: str
) -> None:
    names = sorted(columns.split(","), key=WANTED.index)
    types = {"sequence": "bigint", "subject": "string", "store": "string"}
    schema = ", ".join(f"{name} {types[name]}" for name in names)
    for paths in (folders, folders[:1]):
        asked = engine.session.read.format("delaymq").option("paths", json.dumps(paths))
        by_option, by_schema = asked.option("columns", columns).load(), asked.schema(schema).load()
        assert by_option.columns == by_schema.columns == names
        expected = Counter(map(tuple, loaded(engine, paths).select(*names).collect()))
        assert Counter(map(tuple, by_option.collect())) == Counter(map(tuple, by_schema.collect())) == expected


def test_one_store_tells_its_path_where_that_is_asked(spark: Any, folders: list[str]) -> None:
    found = spark.read.format("delaymq").option("columns", "store").load(folders[0])
    assert Counter(found.collect()) == {(folders[0],): 300}
    assert "store" not in spark.read.format("delaymq").load(folders[0]).columns


def test_options_are_for_each_of_them(engine: Engine, folders: list[str]) -> None:
    expected = [row for row in rows(loaded(engine, folders)) if row[1] == "orders" and row[0] >= 100]
    assert rows(loaded(engine, folders, subject="orders", sequenceFrom="100")) == expected != []


def test_filters_that_are_handed_over_are_for_each_of_them(pushing: Engine, folders: list[str]) -> None:
    expected = [row for row in rows(loaded(pushing, folders)) if row[1] == "orders" and row[0] >= 100]
    asked = loaded(pushing, folders, pushdown="true")
    assert rows(asked.filter("subject = 'orders' AND sequence >= 100")) == expected != []
    of_one = loaded(pushing, folders, pushdown="true").filter(f"store = '{folders[1]}'")
    assert len(rows(of_one)) == 500


def test_what_a_filter_leaves_out_is_not_planned_of_any(filled: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(filled, tmp_path / "copied"))
    asked = [TableOptions(path=str(path), split_bytes=256 << 10, pushes_filters=True) for path in (filled, copied)]
    reader = PushingReader(asked)
    list(reader.pushFilters([LessThan(("sequence",), 100)]))
    parts = Counter(part.part.path for part in reader.partitions() if isinstance(part, PartOfTable))
    assert all(0 < parts[one.path] < len(planned(one)) for one in asked)


@pytest.mark.parametrize("columns", ["store", "sequence,store"])
def test_every_payload_is_checked_where_that_is_asked(
    spark: Any, folders: list[str], tmp_path: Path, columns: str
) -> None:
    damaged = Path(shutil.copytree(folders[1], tmp_path / "damaged"))
    flip(*place_of(damaged, b"body 249"))
    asked = spark.read.format("delaymq").options(verification="full", columns=columns)
    with pytest.raises(Exception, match="segment"):
        asked.load([folders[0], str(damaged)]).collect()
    found = asked.option("onCorrupt", "report").load([folders[0], str(damaged)])
    assert found.columns == sorted(columns.split(","), key=WANTED.index)
    assert Counter(row["store"] for row in found.collect()) == {folders[0]: 300, str(damaged): 499}


def test_a_task_of_its_own_is_told_the_store(spark: Any, folders: list[str]) -> None:
    asked = TableOptions(path=folders[0], columns=("sequence",), store="the first")
    found = map_segments(spark, asked, lambda batches: batches, "sequence bigint, store string")
    assert Counter(row["store"] for row in found.collect()) == {"the first": 300}


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"snapshot": "00"}, "snapshot"),
        ({"columns": "store,nothing"}, "columns"),
        ({"paths": json.dumps(["a", "b", "a"])}, "paths"),
        ({"paths": json.dumps(["a", "b/../a/"])}, "paths"),
        ({"paths": "[]"}, "paths"),
        ({"paths": '["a", 1]'}, "paths"),
        ({"paths": "a"}, "paths"),
        ({"path": "c"}, "path"),
    ],
)
def test_what_several_stores_cannot_have_is_refused(options: dict[str, str], argument: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        TableOptions.parsed_of_each({"paths": json.dumps(["a", "b"]), **options})
    assert refused.value.argument == argument


def test_a_stream_is_of_one_store(spark: Any, folders: list[str], tmp_path: Path) -> None:
    asked = spark.readStream.format("delaymq").option("paths", json.dumps(folders)).load()
    written = asked.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"expected one of path, .*, found 'paths'"):
        written.trigger(availableNow=True).start().awaitTermination()


def test_one_of_them_that_is_not_there_is_named(spark: Any, folders: list[str], tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nowhere"):
        spark.read.format("delaymq").load([*folders, str(tmp_path / "nowhere")]).count()
