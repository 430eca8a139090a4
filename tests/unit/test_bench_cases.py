"""Which cases the benches have, how they are named, and that --quick makes each of them smaller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from delaymq.bench import BENCHES, SCALED, planned
from delaymq.bench.machine import STATUS, anonymous_bytes
from delaymq.bench.row import Case, summary
from tidy.documents import Row, table_after

README = Path(__file__).resolve().parents[2] / "benches" / "README.md"
FIGURES = "## Last figures"


def values(bench: str, name: str) -> list[object]:
    return [case.detail.get(name) for case in BENCHES[bench](False)]


@pytest.mark.parametrize("bench", BENCHES)
def test_quick_makes_every_case_smaller(bench: str) -> None:
    quick, whole = BENCHES[bench](True), BENCHES[bench](False)
    assert len(quick) <= len(whole)
    for small, large in zip(quick, whole, strict=False):
        assert small.bench == large.bench == bench
        assert 2 * small.n < large.n or (small.n, large.n) == (307_200, 500_000)  # commit, as many as 1,024 in flight


def test_the_details_that_name_a_case() -> None:
    assert values("append", "where") == ["window", "beyond"]
    assert values("memory", "where") == ["window", "beyond", "recent"]
    assert values("append", "batch") == values("publish_many", "batch") == [1000, 1000]
    assert values("commit", "in_flight") == [1, 16, 64, 256, 1024]
    assert values("commit", "batch") == [1] * 5
    assert values("publish", "batch") == [1, 1]
    rates = list(zip(values("lateness", "rate_per_s"), values("lateness", "beside"), strict=True))
    alone = [(1000, "nothing"), (20_000, "nothing"), (1000, "python"), (1000, "publishing")]
    assert rates == [*alone, (1000, "listing"), (20_000, "listing"), (1000, None)]
    assert values("lateness", "listed") == [None] * 4 + [1_000_000] * 2 + [None]
    assert values("lateness", "over") == [None] * 6 + ["tcp"]
    assert values("loopback", "batch") == [1, 16, 64, 256] * 2
    assert [case.durability for case in BENCHES["loopback"](False)] == ["disk"] * 4 + ["os"] * 4
    assert values("connections", "connections") == [64, 8]
    assert values("connections", "in_flight") == [1, 64]
    ways = ["one thread", "64 threads", "64 coroutines"]
    in_batches = ["rows", "columns", "one by one", "batches", "idle"]
    assert values("clients", "call") == [*ways, *in_batches, *ways]
    assert values("clients", "batch") == [None] * 3 + [1000, 1000, None, 1000, None] + [None] * 3
    assert [case.durability for case in BENCHES["clients"](False)] == ["disk"] * 8 + ["os"] * 3
    assert values("asyncio_client", "call") == ["publish", "deduplicated", "consume"]
    assert values("held_pulls", "pulls") == [10_000]
    assert values("idle", "connections") == [2000]
    assert values("wheel", "pending") == [1_000_000]
    assert values("listing", "pending") == [1_000_000, 200_000, 200_000]
    assert values("listing", "call") == ["core", "python", "client"]
    assert values("restart", "pending") == [1_000_000, 1_000_000, 10_000_000, 10_000_000]
    assert values("restart", "moment") == ["publish", "delivery"] * 2
    assert values("changes", "call") == ["cancel", "move", "cancel_keys", "move_keys"]
    assert values("room", "moment") == ["pending", "cancelled"]
    assert values("changes", "pending") == [2_000_000] * 4
    assert values("room", "pending") == [2_000_000] * 2
    assert [case.detail["pending"] for case in planned(["changes"], quick=False, scale=100_000_000)] == [
        *[100_000_000] * 2,
        *[10_000_000] * 2,
    ]
    assert values("burst", "consumer") == ["rust", "python", "rust", "rust", "rust"]
    assert values("burst", "subjects") == [1, 1, 6, 16, 40]
    assert values("hour", "pending") == [2_000_000]
    assert values("subjects", "subjects") == [1, 100, 1000, 10_000, 1000]
    assert values("backlog", "ready") == [10_000_000, 2_000_000]
    assert values("backlog", "body_bytes") == [64, 1_024]
    assert values("replay", "ready") == [10_000_000] * 2
    assert values("replay", "delay_ms_max") == [0, 4_000]
    assert values("filters", "consumer") == ["subscription", "qmq"]
    assert values("failover", "moment") == ["publish", "delivery"]
    assert values("copies", "call") == ["publish", "publish_many"]
    assert values("catch_up", "nodes") == [2] * 4


def test_those_of_any_size_have_as_many_messages_as_are_asked_for() -> None:
    assert [case.n for case in planned(["backlog"], quick=True, scale=7)] == [7]
    found = {
        name: [(case.n, case.detail.get("pending")) for case in planned([name], quick=False, scale=1_000_000)]
        for name in SCALED
    }
    assert found == {
        "lateness": [(200_000, 1_000_000)],
        "restart": [(1_000_000, 1_000_000)] * 2,
        "listing": [(1_000_000, 1_000_000)],
        "forecast": [(1_000_000, 1_000_000)],
        "changes": [(500_000, 1_000_000)] * 4,
        "room": [(1_000_000, 1_000_000)] * 2,
        "burst": [(1_000_000, None)] * 4,
        "hour": [(1_000_000, 1_000_000)],
        "backlog": [(1_000_000, None)],
        "replay": [(1_000_000, None)] * 2,
    }


def marked(cases: Sequence[Case]) -> list[dict[str, float]]:
    return [{mark.figure: mark.bound for mark in case.must} for case in cases]


def test_what_must_be_reached_stands_in_the_cases_and_grows_with_a_burst() -> None:
    seconds = {"value": 2, "memory_bytes": 1 << 30}
    assert marked(planned(["restart"], quick=False, scale=100_000_000)) == [seconds] * 2
    assert marked(planned(["room"], quick=False, scale=7)) == [{"value": 260}, {"value": 306}]
    assert marked(planned(["changes", "listing"], quick=False)) == [
        *[{"value": 100_000}] * 4,
        {"value": 1_000_000},
        *[{}] * 2,
    ]
    assert marked(planned(["forecast"], quick=False)) == [{"subject_ms": 50, "totals_ms": 1, "rested_ms": 50}]
    assert marked(planned(["replay"], quick=False)) == [{"start_ms": 50}] * 2
    assert marked(planned(["hour"], quick=False)) == [{"anonymous_bytes": 1 << 30}]
    assert marked(planned(["append"], quick=False)) == [{"value": 3_000_000}, {"value": 2_000_000}]
    assert marked(planned(["lateness"], quick=False, scale=7)) == [{"p50_ms": 1.5, "p99_ms": 10}]
    assert marked(planned(["burst"], quick=False, scale=10_000_000)) == [{"value": 20, "neighbour_p99_ms": 50}] * 4
    assert marked(planned(["burst"], quick=False))[:2] == [{"value": 2, "neighbour_p99_ms": 50}, {"value": 5}]
    assert marked(planned(["clients"], quick=False)) == [
        {"ratio": 0.75},
        *[{}] * 4,
        {"ratio": 0.12},
        {"ratio": 0.7},
        {"value": 200_000, "processor_us_per_s": 100},
        {"ratio": 0.75},
        *[{}] * 2,
    ]
    assert marked(planned(["failover"], quick=False)) == [{"value": 3.7, "p99_s": 4.5}] * 2
    assert marked(planned(["copies"], quick=False)) == [{}, {"ratio": 0.4}]
    assert marked(planned(["catch_up"], quick=False)) == [{"ratio": 0.5}] * 2 + [{"ratio": 0.66}] * 2
    floors = {mark.figure for cases in BENCHES.values() for case in cases(False) for mark in case.must if mark.is_floor}
    assert floors == {"value", "listed_per_s", "ratio"}


@pytest.mark.parametrize(("value", "is_met"), [(74.0, False), (75.0, True)])
def test_a_share_of_the_limit_can_be_asked_for(value: float, is_met: bool) -> None:
    [case, *_] = planned(["clients"], quick=False)
    [judged] = summary(case, [{"value": value}], [{"value": 100.0, "plain": 200.0}], {}).must
    assert (judged.words(), judged.is_met) == ("ratio at least 0.75", is_met)


def test_nothing_is_asked_of_a_quick_run() -> None:
    assert {case.must for case in planned([], quick=True)} == {()}
    assert {case.must for case in planned(["restart"], quick=True, scale=7)} == {()}


def test_what_goes_through_a_server_can_be_asked_for_alone() -> None:
    through = {"listing", "lateness", "loopback", "connections", "clients", "asyncio_client", "held_pulls", "idle"}
    through |= {"ready", "neighbour", "filters", "failover", "copies", "catch_up"}
    assert {case.bench for case in planned([], quick=False, served=True)} == through
    assert [case.detail["over"] for case in planned(["lateness"], quick=True, served=True)] == ["tcp"]
    assert planned(["append"], quick=True, served=True) == []


def test_a_second_limit_stands_where_memory_a_timer_or_rust_is_below_the_first() -> None:
    having = {name for name, cases in BENCHES.items() if all(case.plain_words for case in cases(True))}
    assert having == {"append", "publish", "publish_many", "lateness", "clients"}


def test_anonymous_memory_grows_by_what_is_taken() -> None:
    if not STATUS.exists():
        pytest.skip("no /proc here")
    before = anonymous_bytes()
    taken = bytearray(b"x" * (64 << 20))
    assert anonymous_bytes() - before > (48 << 20)
    assert len(taken) == 64 << 20


def figures() -> list[Row]:
    lines = README.read_text("utf-8").splitlines()
    heading = next(at for at, line in enumerate(lines) if line.startswith("| row | value |"))
    assert FIGURES in lines[:heading]
    return table_after(lines, heading)


def test_the_table_of_figures_has_a_row_of_each_bench_with_must_and_aim() -> None:
    rows = figures()
    assert {len(row.cells) for row in rows} == {6}
    assert all(cell for row in rows for cell in row.cells)
    for bench in BENCHES:
        assert any(f"`{bench}`" in row.cells[0] for row in rows), bench


def test_no_limit_has_more_logic_than_fits_into_sixty_lines() -> None:
    programs = list((README.parent / "limits").glob("*.rs"))
    assert programs
    assert {path.name: lines for path in programs if (lines := len(path.read_text("utf-8").splitlines())) > 60} == {}
