from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from delaymq.bench.interleaving import interleaved
from delaymq.bench.machine import Moment, meanwhile
from delaymq.bench.marks import at_least, at_most
from delaymq.bench.row import Case, Figures, summary


def a_case(*, higher_is_better: bool = True) -> Case:
    return Case(
        bench="append",
        unit="records/s",
        durability="os",
        n=10,
        pairs=lambda _: [],
        limit_words="pwrite",
        higher_is_better=higher_is_better,
        detail={"where": "near"},
    )


def test_a_row_is_medians_beside_their_limit() -> None:
    ours = [{"value": value, "early": 1.0, "p50_ms": value / 10} for value in (10.0, 30.0, 20.0)]
    limits = [{"value": value, "p50_ms": 1.0} for value in (40.0, 50.0, 100.0)]
    row = json.loads(summary(a_case(), ours, limits, {"load": 0.5, "steal": 0.0}).to_json())
    assert list(row) == ["bench", "unit", "value", "limit", "ratio", "durability", "n", "detail"]
    assert (row["value"], row["limit"], row["ratio"]) == (20, 50, 0.4)
    assert row["detail"] == {
        "where": "near",
        "early": 3,
        "p50_ms": 2,
        "runs": 3,
        "spread": [10, 30],
        "limit_spread": [40, 100],
        "limit_p50_ms": 1,
        "limit_is": "pwrite",
        "load": 0.5,
        "steal": 0,
    }


def test_marks_are_judged_by_the_figures_of_the_row() -> None:
    asked = dataclasses.replace(a_case(), must=at_least(value=20) + at_most(p99_ms=5, early=0))
    row = summary(asked, [{"value": 20.0, "p99_ms": 5.5, "early": 0.0}], [{"value": 1.0}], {})
    assert json.loads(row.to_json())["detail"]["must"] == [
        {"figure": "value", "at_least": 20, "met": True},
        {"figure": "p99_ms", "at_most": 5, "met": False},
        {"figure": "early", "at_most": 0, "met": True},
    ]
    assert [judged.words() for judged in row.missed] == ["p99_ms at most 5"]
    assert summary(asked, [{"value": 19.9, "p99_ms": 5.0, "early": 0.0}], [{"value": 1.0}], {}).missed[0].found == 19.9


def test_a_mark_of_a_figure_that_nobody_measured_is_no_mark_that_is_met() -> None:
    with pytest.raises(KeyError, match="p99_ms"):
        summary(dataclasses.replace(a_case(), must=at_most(p99_ms=5)), [{"value": 20.0}], [{"value": 1.0}], {})


def test_of_memory_the_greatest_growth_of_all_runs_is_told() -> None:
    ours = [{"value": 1.0, "memory_growth_bytes": growth} for growth in (0.0, 700.0, 20.0)]
    detail = summary(a_case(), ours, [{"value": 1.0}] * 3, {}).detail
    assert detail["memory_growth_bytes"] == 700


def test_the_second_limit_stands_in_the_detail_where_a_case_has_one() -> None:
    limits = [{"value": 1.0, "plain": plain} for plain in (9.0, 7.0, 8.0)]
    case = dataclasses.replace(a_case(), plain_words="the same bytes copied")
    told = summary(case, [{"value": 1.0}] * 3, limits, {}).detail
    assert (told["limit_plain"], told["limit_plain_is"]) == (8, "the same bytes copied")
    without = summary(a_case(), [{"value": 1.0}] * 3, limits, {}).detail
    assert not [name for name in without if "plain" in name]


def test_the_ratio_is_the_share_of_the_limit_reached_for_times_too() -> None:
    assert summary(a_case(higher_is_better=False), [{"value": 4.0}], [{"value": 1.0}], {}).ratio == 0.25


def test_runs_are_interleaved_each_in_an_empty_folder(tmp_path: Path) -> None:
    order: list[str] = []

    def measured(name: str) -> Figures:
        order.append(name)
        return {"value": float(len(order))}

    def ours(folder: Path) -> Figures:
        assert not list(folder.iterdir())
        (folder / "file").write_bytes(b"x")
        return measured("ours")

    def limit(folder: Path) -> Figures:
        assert not list(folder.iterdir())
        return measured("limit")

    pairs = list(interleaved(ours, limit, quick=False)(tmp_path))
    assert order == ["ours", "limit"] * 5
    assert pairs[-1] == ({"value": 9.0}, {"value": 10.0})
    assert not list(tmp_path.iterdir())


def test_a_failed_run_leaves_no_folder(tmp_path: Path) -> None:
    def fail(_: Path) -> Figures:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(interleaved(fail, fail, quick=True)(tmp_path))
    assert not list(tmp_path.iterdir())


def test_what_the_machine_did_meanwhile_is_shares() -> None:
    found = meanwhile(Moment(0, 0, 0, 0.0), Moment(1000, 50, 600, 400.0))
    assert found["steal"] == 0.05
    assert found["others"] == 0.2
