"""Filters of Spark that leave out what is read, where that is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from delaymq.spark.plan import TableOptions, planned
from delaymq.spark.pushdown import narrowed
from delaymq.spark.source import PushingReader
from spark.engines import Engine

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BEHIND = NOON + timedelta(milliseconds=1)
SUBJECT, SEQUENCE, DUE = ("subject",), ("sequence",), ("due",)


def asked(log: str = "message", **options: Any) -> TableOptions:
    return TableOptions(path="/data", log=log, **options)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(SUBJECT, "a")], {"subjects": ("a",)}),
        ([In(SUBJECT, ("b", "a", None)), In(SUBJECT, ("a", "c"))], {"subjects": ("a",)}),
        ([EqualTo(SUBJECT, "a"), EqualTo(SUBJECT, "b")], {"subjects": ()}),
        ([EqualTo(SEQUENCE, 5)], {"first_sequence": 5, "end_sequence": 6}),
        ([GreaterThan(SEQUENCE, 5), GreaterThanOrEqual(SEQUENCE, 3)], {"first_sequence": 5}),
        ([LessThan(SEQUENCE, 5), LessThanOrEqual(SEQUENCE, 7)], {"end_sequence": 6}),
        ([GreaterThan(SEQUENCE, 9), LessThan(SEQUENCE, 1)], {"first_sequence": 9, "end_sequence": 9}),
        (
            [GreaterThan(SEQUENCE, -(2**62)), LessThan(SEQUENCE, 2**63 - 1)],
            {"first_sequence": 0, "end_sequence": 2**63 - 1},
        ),
        ([GreaterThanOrEqual(DUE, NOON), LessThan(DUE, NOON)], {"due_from": NOON, "due_before": BEHIND}),
        ([EqualTo(("published",), NOON)], {"published_from": NOON, "published_before": BEHIND}),
        ([LessThan(DUE, datetime(1, 1, 1, tzinfo=UTC))], {"due_before": datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)}),
        ([GreaterThan(DUE, datetime(9999, 12, 31, 23, tzinfo=UTC))], {"due_from": datetime(9999, 12, 31, tzinfo=UTC)}),
        # What is of no use here is left to Spark.
        ([GreaterThan(DUE, NOON.replace(tzinfo=None)), EqualTo(SEQUENCE, None), GreaterThan(SUBJECT, "a")], {}),
        ([IsNotNull(SUBJECT), Not(EqualTo(SUBJECT, "a")), StringStartsWith(SUBJECT, "a"), EqualTo(("body",), b"")], {}),
    ],
)
def test_a_filter_is_an_option_that_is_no_narrower(filters: list[Filter], expected: dict[str, Any]) -> None:
    assert narrowed(asked(), filters) == asked(**expected)


def test_options_and_filters_leave_out_what_either_does() -> None:
    options = asked(subjects=("a", "b"), first_sequence=7, due_before=NOON)
    filters = [In(SUBJECT, ("b", "c")), GreaterThan(SEQUENCE, 3), LessThan(DUE, NOON + timedelta(1))]
    assert narrowed(options, filters) == asked(subjects=("b",), first_sequence=7, due_before=NOON)


def test_a_filter_is_of_the_times_that_bound_a_table_and_of_files_of_none() -> None:
    of = [EqualTo(("ready",), NOON), EqualTo(("time",), NOON), EqualTo(("published",), NOON)]
    for log in ("ready", "action", "deliveries"):
        assert narrowed(asked(log), of) == asked(log, published_from=NOON, published_before=BEHIND)
    assert narrowed(asked("segments"), [*of, EqualTo(SUBJECT, "a"), EqualTo(SEQUENCE, 1)]) == asked("segments")


def test_all_filters_are_handed_back_and_what_they_leave_out_is_not_planned(filled: Path) -> None:
    whole = TableOptions(path=str(filled), split_bytes=256 << 10, pushes_filters=True)
    reader, filters = PushingReader([whole]), [GreaterThan(SEQUENCE, 0), LessThan(SEQUENCE, 100)]
    assert list(reader.pushFilters(filters)) == filters
    assert 0 < len(reader.partitions()) < len(planned(whole))


def loaded(engine: Engine, path: Path, **options: str) -> Any:
    asked_for = {"path": str(path), "splitBytes": "262144", "pushdown": "true", **options}
    return engine.session.read.format("delaymq").options(**asked_for).load()


@pytest.mark.parametrize("log", ["message", "pending", "ready", "deliveries"])
@pytest.mark.parametrize(
    "condition",
    [
        "subject = 'orders'",
        "subject IN ('orders', 'settlements') AND sequence BETWEEN 400 AND 900",
        "sequence > 1000 AND sequence <= 1005 AND subject LIKE 'o%'",
        "due > timestamp'{middle}' AND sequence > 0",
        "due <= timestamp'{middle}' AND sequence < 2000",
        "subject = 'nobody' OR sequence = 7",
    ],
)
def test_one_filter_of_a_load_has_the_rows_that_spark_filters(
    pushing: Engine, filled: Path, log: str, condition: str
) -> None:
    columns = "sequence,subject,due"
    plain = loaded(pushing, filled, log=log, columns=columns, pushdown="false")
    middle = plain.selectExpr("percentile_approx(unix_millis(due), 0.5) AS middle").first()["middle"]
    condition = condition.format(middle=datetime.fromtimestamp(middle / 1000, UTC).replace(tzinfo=None))
    found = loaded(pushing, filled, log=log, columns=columns).filter(condition).collect()
    expected = plain.filter(condition).collect()
    assert sorted(found, key=tuple) == sorted(expected, key=tuple)
    assert len(found) < plain.count()
    assert found or "due" not in condition


def test_less_is_read(spark: Any, filled: Path) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "true")
    try:
        engine = Engine(spark)
        parts = [
            loaded(engine, filled, pushdown=asks).filter("sequence < 100").rdd.getNumPartitions()
            for asks in ("true", "false")
        ]
    finally:
        spark.conf.unset(name)
    assert 0 < parts[0] < parts[1]


@pytest.mark.xfail(
    raises=AssertionError,
    reason="Spark hands the filters of one scan to all scans of a load: so `pushdown` is for one action of a load",
)
def test_two_actions_of_one_load(spark: Any, filled: Path) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "true")
    try:
        frame = loaded(Engine(spark), filled, columns="sequence")
        assert frame.filter("sequence < 10").count() < 10
        whole = frame.count()
    finally:
        spark.conf.unset(name)
    assert whole > 3000
