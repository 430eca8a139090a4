"""Nothing is early by the true time, whatever the wall clock of the served process does: it is turned under the real
binary, which is killed, stopped and started again meanwhile. What each step does to time is in docs/guarantees.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clocks.stepped import Node, library
from commanding import command, refused
from full_disks import cannot

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TEN_YEARS_MS = 3_652 * DAY_MS
SMEAR_PARTS_PER_MILLION = 11.6  # a leap second over a day
STOPPED_SECONDS = float(os.environ.get("CLOCKS_STOPPED_SECONDS", "2"))
DELAYS_MS = [0, 300, 900, 1_500, 2_200]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("clock"))


@pytest.fixture
def node(tmp_path: Path, clock: Path) -> Iterator[Node]:
    with Node(tmp_path, clock) as made:
        yield made


def publish(node: Node, name: str) -> None:
    node.publish(f"{name} after", DELAYS_MS)
    node.publish(f"{name} at", DELAYS_MS, at=True)


@pytest.mark.parametrize("back_ms", [HOUR_MS, DAY_MS])
def test_a_step_back_makes_nothing_early_and_holds_nothing(node: Node, back_ms: int) -> None:
    publish(node, "before")
    node.wall.stand(-back_ms)
    node.publish("behind", DELAYS_MS)
    node.await_all()
    assert node.seen.early() == {}
    assert not node.held()
    assert node.steps() == 1


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, TEN_YEARS_MS])
def test_a_step_ahead_holds_what_is_due_until_it_is_undone(node: Node, ahead_ms: int) -> None:
    publish(node, "before")
    node.wall.stand(ahead_ms)
    node.await_held(held=True)
    node.publish("ahead", DELAYS_MS)
    time.sleep(max(DELAYS_MS) / 1_000 + 0.3)
    assert node.seen.missing()
    node.wall.stand(0)
    node.await_all()
    assert node.seen.early() == {}
    assert not node.held()
    assert node.steps() == 2


def test_a_step_ahead_is_believed_once_a_time_service_says_that_the_clock_is_right(node: Node) -> None:
    node.wall.stand(HOUR_MS)
    node.await_held(held=True)
    node.publish("ahead", [0, 200])
    node.wall.is_kept()
    node.await_all()
    node.await_held(held=False)


def accept(node: Node, *arguments: str) -> str:
    ended = command("clock", "accept", *arguments, *node.served.place)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_an_operator_sees_a_step_and_accepts_it_over_tcp(node: Node) -> None:
    node.wall.stand(HOUR_MS)
    node.await_held(held=True)
    node.publish("ahead", [0, 200])
    status, page = node.served.page("/ready")
    assert (status, page.count("\n")) == (200, 1)
    assert "dispatch is held since" in page
    assert re.search("`delaymq clock accept --ahead-ms 3[56][0-9]{5}` ends the hold", page)
    found = json.loads(command("clock", "status", "--json", *node.served.place).stdout)
    ahead_ms = found["ahead_ms"]
    assert abs(ahead_ms - HOUR_MS) < 100
    ends_it = f"`delaymq clock accept --ahead-ms 3[56][0-9]{{5}} --server {node.served.url}` ends the hold"
    for verb in (["clock", "status"], ["status"]):
        first = command(*verb, *node.served.place).stdout.splitlines()[0]
        assert "dispatch is held since" in first
        assert re.search(ends_it, first)
    assert "the step that holds dispatch now" in refused(
        2, "clock", "accept", "--ahead-ms", str(HOUR_MS // 2), *node.served.place
    )
    assert node.held()
    assert "the step is accepted" in accept(node, "--ahead-ms", str(ahead_ms))
    node.await_all()
    assert not node.held()
    assert node.accepts() == 1
    assert "an operator accepted the wall clock" in node.served.said()
    assert node.served.page("/ready") == (200, "the server takes work\n")
    refused(2, "clock", "accept", *node.served.place)


def test_an_accepted_step_is_kept_by_a_killed_server_and_a_further_one_holds_it(node: Node) -> None:
    node.wall.stand(HOUR_MS)
    node.await_held(held=True)
    node.start_again()
    assert node.held(), "a restart believes no step"
    accept(node)
    node.start_again()
    assert not node.held()
    node.publish("again", [1_500])
    node.wall.stand(2 * HOUR_MS)
    node.start_again()
    assert node.held()
    node.wall.stand(HOUR_MS)
    node.await_all()
    assert node.seen.early() == {}


def test_a_server_that_starts_held_says_so_in_its_first_line(node: Node) -> None:
    node.wall.stand(-DAY_MS)
    node.start_again()
    assert "no command ends it earlier" in (node.served.hold or "")
    assert "cannot be taken back" in refused(2, "clock", "accept", "--ahead-ms", "0", *node.served.place)
    assert node.held()
    node.wall.stand(0)
    node.await_held(held=False)
    node.wall.stand(HOUR_MS)
    node.start_again()
    assert f"--server {node.served.url}` ends the hold" in (node.served.hold or "")
    node.wall.stand(0)
    node.start_again()
    assert node.served.hold is None


def test_the_setting_accepts_a_step_whose_pace_is_kept_and_makes_early_what_was_due_by_the_true_time(
    tmp_path: Path, clock: Path
) -> None:
    with Node(tmp_path, clock, "--set", "store.clock_accept_after_seconds=3") as node:
        node.publish("before", [20_000])
        node.wall.stand(HOUR_MS)
        node.await_held(held=True)
        assert "the step is accepted in" in node.served.page("/ready")[1]
        node.await_all()
        assert node.seen.early(), "the cost of the setting: the step was wrong"
        assert (node.held(), node.accepts()) == (False, 1)
        assert "the setting clock_accept_after accepted the wall clock" in node.served.said()


def test_a_step_ahead_is_not_believed_for_a_restart(node: Node) -> None:
    publish(node, "before")
    node.wall.stand(HOUR_MS)
    node.await_held(held=True)
    node.start_again()
    assert node.held()
    time.sleep(max(DELAYS_MS) / 1_000 + 0.3)
    assert node.seen.early() == {}
    node.wall.stand(0)
    node.await_all()
    assert node.seen.early() == {}


def test_a_step_ahead_while_nobody_serves_is_not_believed(node: Node) -> None:
    publish(node, "before")
    node.wall.stand(TEN_YEARS_MS)
    node.start_again()
    assert node.held()
    node.wall.stand(0)
    node.await_all()
    assert node.seen.early() == {}


def test_small_steps_that_were_believed_do_not_add_up_to_one_that_is_not(node: Node) -> None:
    node.wall.stand(3_000)
    while node.steps() == 0:
        time.sleep(0.05)
    node.publish("between", [0])  # the step is seen, and kept for the next opening
    node.await_all()
    time.sleep(0.3)
    node.wall.stand(6_000)
    node.start_again()
    assert not node.held()


def test_a_step_back_while_nobody_serves_holds_until_it_is_undone(node: Node) -> None:
    publish(node, "before")
    node.wall.stand(-DAY_MS)
    node.start_again()
    assert node.held()
    node.wall.stand(0)
    node.await_all()
    assert node.seen.early() == {}


@pytest.mark.timeout(120 + STOPPED_SECONDS)
@pytest.mark.parametrize("ahead_ms", [0, -HOUR_MS, HOUR_MS])
def test_a_process_that_was_stopped_is_late_and_not_early(node: Node, ahead_ms: int) -> None:
    publish(node, "before")
    node.publish("long", [int(STOPPED_SECONDS * 1_000) + 700])
    node.served.process.send_signal(signal.SIGSTOP)
    node.wall.stand(ahead_ms)
    time.sleep(STOPPED_SECONDS)
    node.served.process.send_signal(signal.SIGCONT)
    if ahead_ms > 0:
        node.await_held(held=True)
        node.wall.stand(0)
    node.await_all()
    assert node.seen.early() == {}


def test_a_leap_second_that_is_smeared_is_no_step(node: Node) -> None:
    publish(node, "before")
    began = time.monotonic_ns()
    while node.seen.missing():
        elapsed_ns = time.monotonic_ns() - began
        assert elapsed_ns < 30_000_000_000
        node.wall.slew(int(elapsed_ns * SMEAR_PARTS_PER_MILLION / 1_000_000))
        time.sleep(0.01)
    assert node.seen.early() == {}
    assert node.steps() == 0


@pytest.mark.parametrize("boot_seconds", [400 * 86_400, 1])
def test_another_boot_clock_makes_nothing_early_and_holds_nothing(
    tmp_path: Path, clock: Path, boot_seconds: int
) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        cannot("only root with unshare can give a process another boot clock")
    with Node(tmp_path, clock) as node:
        publish(node, "before")
        node.start_again(["unshare", "--time", "--boottime", str(boot_seconds), "--fork", "--kill-child", "--"])
        node.publish("in another", DELAYS_MS)
        node.await_all()
        assert node.seen.early() == {}
        assert not node.held()


def test_a_clock_that_is_believed_at_once_is_found_to_be_early(node: Node) -> None:
    """That the test can fail: a step that is believed, since the kernel calls it right, although it is not."""
    node.publish("before", [20_000])
    node.wall.stand(HOUR_MS)
    node.wall.is_kept()
    node.await_all()
    assert node.seen.early()
