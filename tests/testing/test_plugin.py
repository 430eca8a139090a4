"""The pytest plugin, as a project sees it that has delaymq installed."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

REMINDER = """
from datetime import datetime, timedelta, UTC

from delaymq.testing import crash, ready

def test_the_fixtures_belong_together(delaymq_store, delaymq_clock, tmp_path):
    assert delaymq_store.path.startswith(str(tmp_path))
    assert delaymq_store.status().durability == "os"
    delaymq_store.publish("reminder", b"pay the rent", delay=timedelta(days=30))
    assert ready(delaymq_store, "reminder") == []
    delaymq_clock.advance(timedelta(days=30))
    assert [message.body for message in ready(delaymq_store, "reminder")] == [b"pay the rent"]

def test_each_test_has_its_own(delaymq_store, delaymq_clock):
    assert delaymq_clock.now == datetime(2030, 1, 1, tzinfo=UTC)
    assert delaymq_store.status().pending == 0

def test_what_was_crashed_is_closed_at_the_end(delaymq_store, delaymq_clock):
    delaymq_store.publish("reminder", b"x")
    born = crash(crash(delaymq_store))
    assert len(ready(born, "reminder")) == 1
"""

SERVED = """
import delaymq
from delaymq.testing import ready

def test_a_served_store_is_the_tests_own(delaymq_server, delaymq_store):
    with delaymq.connect(delaymq_server.url) as client:
        client.publish("reminder", b"x")
    assert len(ready(delaymq_store, "reminder")) == 1
"""

LIGHT = """
import sys

def test_nothing_was_imported_before_it_is_asked_for(request):
    loaded = [name for name in sys.modules if name.partition(".")[0] == "delaymq"]
    assert loaded == []
    assert "pytest_delaymq" in sys.modules
    request.getfixturevalue("delaymq_clock")
    assert "delaymq._core" in sys.modules
    assert "hypothesis.strategies" not in sys.modules
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:cacheprovider", *arguments)


def test_the_fixtures_are_there_without_asking(project: pytest.Pytester) -> None:
    project.makepyfile(REMINDER)
    run(project).assert_outcomes(passed=3)


def test_a_server_is_there_without_asking(project: pytest.Pytester) -> None:
    project.makepyfile(SERVED)
    run(project).assert_outcomes(passed=1)


def test_the_fixtures_work_in_parallel_lives_of_one_project(project: pytest.Pytester) -> None:
    project.makepyfile(test_one=REMINDER, test_two=REMINDER)
    run(project, "--import-mode=importlib").assert_outcomes(passed=6)


def test_pytest_starts_without_delaymq(project: pytest.Pytester) -> None:
    project.makepyfile(LIGHT)
    run(project).assert_outcomes(passed=1)


def test_the_plugin_can_be_named(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.makepyfile(REMINDER)
    run(project).assert_outcomes(errors=3)
    run(project, "-p", "delaymq.testing.plugin").assert_outcomes(passed=3)


def test_the_plugin_can_be_left_out(project: pytest.Pytester) -> None:
    project.makepyfile(REMINDER)
    run(project, "-p", "no:delaymq").assert_outcomes(errors=3)


def test_the_fixtures_say_what_they_are(project: pytest.Pytester) -> None:
    told = run(project, "--fixtures")
    told.stdout.fnmatch_lines(["delaymq_clock*", "*stands still until the test advances it*", "delaymq_store*"])
