"""What Spark forecasts is what the store itself does, and its page shows it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import InvalidArgument
from delaymq.spark import TableOptions
from delaymq.spark.jobs import Due, forecast, page, told
from spark.conftest import SUBJECTS
from tables import stores

START = datetime(2030, 1, 1, tzinfo=UTC)


def known(path: Path) -> list[Due]:
    """The same, as the store says it, subject by subject."""
    with delaymq.open(path) as store:
        found = [
            Due(slot.start, subject, slot.messages, slot.bytes)
            for subject in {one.name for one in store.subjects()}
            for slot in store.forecast(subject).slots
        ]
    return sorted(found, key=lambda one: (one.start, one.subject))


@pytest.mark.parametrize("is_rich", [False, True])
def test_it_is_what_the_store_says_of_each_subject(spark: Any, tmp_path: Path, filled: Path, *, is_rich: bool) -> None:
    """With moved, cancelled and keyed messages, some in runs and some in the log alone."""
    path = stores.rich(tmp_path / "store") if is_rich else filled
    expected = known(path)
    found = told(forecast(spark, TableOptions(path=str(path), log="pending", split_bytes=100_000)))
    assert found == expected != []


def test_it_is_of_the_subjects_and_times_that_are_asked_for(spark: Any, filled: Path) -> None:
    expected = [one for one in known(filled) if one.subject == SUBJECTS[1]]
    middle = expected[len(expected) // 2].start
    asked = TableOptions(path=str(filled), log="pending", subjects=(SUBJECTS[1],), due_from=middle)
    assert told(forecast(spark, asked)) == [one for one in expected if one.start >= middle]


def test_nothing_is_due(spark: Any, tmp_path: Path) -> None:
    delaymq.open(tmp_path / "store").close()
    assert told(forecast(spark, TableOptions(path=str(tmp_path / "store"), log="pending"))) == []
    with pytest.raises(InvalidArgument, match="log: expected pending"):
        forecast(spark, TableOptions(path=str(tmp_path / "store")))


def parsed(written: str) -> ET.Element:
    assert written.startswith("<!DOCTYPE html>\n")
    closed = written.removeprefix("<!DOCTYPE html>\n").replace('<meta charset="utf-8">', "")
    assert "http" not in closed, "it asks for nothing"
    return ET.fromstring(closed)


def cells(root: ET.Element, table: int) -> list[list[str | None]]:
    rows = root.findall("./body/table")[table].findall("tr")[1:]
    return [[cell.text for cell in row] for row in rows]


def test_the_page_has_a_bar_for_each_span_the_hottest_minutes_and_the_subjects() -> None:
    found = [Due(START + timedelta(minutes=minute), "a<b>&", minute + 1, 10) for minute in range(100)]
    found.append(Due(START + timedelta(minutes=7), "other", 1_000_000, 5))
    root = parsed(page(found, title="of <store> & more"))
    assert root.findtext("./body/h1") == "of <store> & more"
    assert root.findtext("./body/p") == "1,005,050 messages with 1,005 bytes are due."
    charts = root.findall("./body/svg")
    bars, of_bytes = charts[0].findall("rect"), charts[1].findall("rect")
    assert (len(charts), len(bars), len(of_bytes)) == (2, 100, 100)
    for chart in (bars, of_bytes):
        heights = [float(bar.attrib["height"]) for bar in chart]
        assert max(heights) == heights[7] == 240
    assert bars[7].findtext("title") == "2030-01-01 00:07: 1,000,008"
    assert [bar.findtext("title") for bar in of_bytes[7:9]] == ["2030-01-01 00:07: 15", "2030-01-01 00:08: 10"]
    assert float(of_bytes[8].attrib["height"]) == 160
    assert cells(root, 0)[:2] == [["2030-01-01 00:07", "1,000,008", "15"], ["2030-01-01 01:39", "100", "10"]]
    assert cells(root, 1) == [["other", "1,000,000", "5"], ["a<b>&", "5,050", "1,000"]]


@pytest.mark.parametrize(("days", "word"), [(0.1, "minute"), (2, "15 minutes"), (200, "day"), (3_650, "30 days")])
def test_a_bar_stands_for_as_long_as_it_must(days: float, word: str) -> None:
    found = [Due(START + timedelta(days=days) * part, "s", 1, 1) for part in (0, 1)]
    root = parsed(page(found, title="t"))
    assert root.findtext("./body/h2") == f"messages due, by {word}; the highest bar is 1"
    lefts = [float(bar.attrib["x"]) for bar in root.findall("./body/svg[1]/rect")]
    assert lefts[0] == 0
    assert 900 < lefts[1] < 960


def test_a_page_of_nothing_says_so() -> None:
    root = parsed(page([], title="t"))
    assert root.findtext("./body/p") == "0 messages with 0 bytes are due."
    assert root.findall("./body/svg") == []


def test_messages_without_a_byte_are_drawn() -> None:
    root = parsed(page([Due(START, "s", 3, 0)], title="t"))
    assert [one.text for one in root.findall("./body/h2")[:2]] == [
        "messages due, by minute; the highest bar is 3",
        "bytes due, by minute; the highest bar is 0",
    ]
