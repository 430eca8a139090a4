"""Rows that are no messages, written by Spark: the error names row, task and column, and nothing is stored.

Each kind goes all the way: Spark makes the row, a task of Spark finds it, and what it raised comes back to the driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import delaymq
from spark.test_write import (
    BODY,
    MESSAGES,
    assert_nothing_is_stored,
    folder,
    messages,
    save,
    sources_expr,
    staged,
)

__all__ = ["folder"]

BODY_BYTES_MAX = 4 << 20
TASKS = 3
BAD: dict[str, tuple[str, str, str]] = {
    "a subject with a slash": ("subject", "IF(id = 15, 'a/b', subject)", "InvalidArgument"),
    "a body over its limit": ("body", f"IF(id = 15, repeat('x', {BODY_BYTES_MAX + 1}), body)", "TooLarge"),
    "due in more than ten years": ("due", "IF(id = 15, timestamp'2199-01-01 00:00:00', due)", "InvalidArgument"),
    "due before 1970": ("due", "IF(id = 15, timestamp'1969-12-31 00:00:00', due)", "InvalidArgument"),
    "text without a zone": ("due", "IF(id = 15, '2035-01-01T00:00:00', '2035-01-01T00:00:00Z')", "InvalidArgument"),
}


def with_one_bad(spark: Any, column: str, wrong: str) -> Any:
    """Row 5 of the second of three tasks is no message."""
    frame = messages(spark, 30, more=(BODY, "id")).withColumn(column, sources_expr(wrong))
    return frame.drop("id")


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named_and_nothing_is_stored(spark: Any, folder: Path, kind: str) -> None:
    column, wrong, error = BAD[kind]
    with pytest.raises(PySparkException) as raised:
        save(with_one_bad(spark, column, wrong), folder, jobId="job")
    assert f"delaymq.errors.{error}: row 5 of task 1: {column}" in str(raised.value)
    assert_nothing_is_stored(folder)


def test_times_without_a_zone_are_no_due_times(spark: Any, folder: Path) -> None:
    """All rows are wrong then, so that the first one of some task is named."""
    frame = spark.range(0, 30, 1, 3).selectExpr(MESSAGES[0], "timestamp_ntz'2035-01-01 00:00:00' AS due", BODY)
    with pytest.raises(PySparkException, match=r"delaymq\.errors\.InvalidArgument: row 0 of task [012]: due: .* zone"):
        save(frame, folder, jobId="job")
    assert_nothing_is_stored(folder)


def test_a_server_stores_none_of_them_either(spark: Any, folder: Path) -> None:
    column, wrong, _ = BAD["a body over its limit"]
    with delaymq.open(folder, durability="os") as store, delaymq.testing.serve(store) as server:
        with pytest.raises(PySparkException, match="TooLarge: row 5 of task 1: body"):
            save(with_one_bad(spark, column, wrong), folder, jobId="job", address=server.url)
        assert store.status().pending == 0
        assert len(staged(folder)) < TASKS
        # The job was never asked for: what is mended is stored under its name.
        save(messages(spark, 30), folder, jobId="job", address=server.url)
        assert store.status().pending == 30
