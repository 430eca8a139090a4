"""QMQ's own client for Java, as it is published, against `delaymq serve`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import delaymq
from java_client.driver import PATIENCE_SECONDS, Got, JavaClient, MissingJavaError, built
from qmq_client import bodies, frame
from qmq_served.serving import QmqServed

# Two clocks tell the same time, but not to the millisecond.
CLOCKS_APART_MS = 50
DELAY_MS = 1_500
NUMBERS = itertools.count()
# Set by .ci/run, where it finds what they need.
MUST_RUN = "TESTS_OF_JAVA_MUST_RUN"


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return built(tmp_path_factory.mktemp("java"))
    except MissingJavaError as missing:
        if os.environ.get(MUST_RUN):
            pytest.fail(f"where Java 17 and Maven are, .ci/run must not pass over this: {missing}", pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QmqServed]:
    with QmqServed(tmp_path_factory.mktemp("qmq") / "store") as server:
        yield server


@pytest.fixture(scope="module")
def client(class_path: str, served: QmqServed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    log = tmp_path_factory.mktemp("said") / "one"
    with JavaClient(class_path, served.http_address, "host@@one", log) as java:
        yield java


@pytest.fixture
def subject() -> str:
    return f"java.{next(NUMBERS)}"


def listen(client: JavaClient, subject: str, *, tags: tuple[str, ...] = ()) -> None:
    """Listens until something comes: a group that is new misses what was sent before its first pull."""
    client.listen(subject, "group", tags=tags)
    for number in itertools.count():
        client.store(subject, f"probe{number}", tags=tags)
        if client.arrived(300):
            return


def heard(client: JavaClient, wanted: set[str]) -> list[Got]:
    """All that comes until each of those has come."""
    found = client.got_until(lambda got: wanted <= {one.name for one in got})
    return [one for one in found if not one.name.startswith("probe")]


def test_immediate_and_delayed_messages_are_stored(client: JavaClient, subject: str) -> None:
    client.store(subject, "now")
    client.store(subject, "later", delay_ms=3_600_000, tags=("a", "b"))


def test_a_producer_lives_through_a_restart(class_path: str, tmp_path: Path, subject: str) -> None:
    with (
        QmqServed(tmp_path / "store") as served,
        JavaClient(class_path, served.http_address, "host@@restarted", tmp_path / "said") as client,
    ):
        client.store(subject, "before")
        served.kill()
        # Nobody listens: each of its tries is refused, and it says so.
        client.send(subject, "meanwhile")
        assert client.sent() == ("meanwhile", False)
        served.start()
        client.store(subject, "after")


def test_a_listener_gets_immediate_and_delayed_messages_with_their_tags(client: JavaClient, subject: str) -> None:
    listen(client, subject)
    client.store(subject, "later", delay_ms=DELAY_MS, tags=("a", "b"))
    client.store(subject, "now")
    found = {one.name: one for one in heard(client, {"now", "later"})}
    assert set(found) == {"now", "later"}
    assert found["later"].tags == ("a", "b")
    assert found["later"].late_ms >= -CLOCKS_APART_MS
    client.stop(subject)


def test_a_listener_is_given_only_the_tags_it_wants(client: JavaClient, subject: str) -> None:
    listen(client, subject, tags=("a",))
    client.store(subject, "untagged")
    client.store(subject, "other", tags=("b",))
    client.store(subject, "wanted", tags=("b", "a"))
    assert [one.name for one in heard(client, {"wanted"})] == ["wanted"]
    client.stop(subject)


def test_a_listener_gets_the_one_message_of_a_hundred_whose_tag_it_wants(
    client: JavaClient, served: QmqServed, subject: str
) -> None:
    listen(client, subject, tags=("rare",))
    names = [f"m{number}" for number in range(2_000)]
    rare = names[99::100]
    for name in names:
        client.send(subject, name, tags=("rare",) if name in rare else ("common",))
    assert {client.sent() for _ in names} == {(name, True) for name in names}
    found = heard(client, set(rare))
    assert sorted(one.name for one in found) == sorted(rare), "each of them once"
    assert {(one.tags, one.times) for one in found} == {(("rare",), 1)}
    client.stop(subject)
    # The others are finished for the group, and so are these: the listener acknowledges what it was given.
    with delaymq.connect(served.url) as operator:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(group.lag for group in operator.groups() if group.subject == subject):
            assert time.monotonic() < deadline, operator.groups()
            time.sleep(0.05)


def test_a_consumer_that_pulls_gets_each_message_once(client: JavaClient, subject: str) -> None:
    assert client.pull(subject, "group", 1, 100) == [], "a group that is new begins at the latest message"
    names = {f"m{number}" for number in range(100)}
    for name in sorted(names):
        client.send(subject, name)
    assert {client.sent() for _ in names} == {(name, True) for name in names}
    found: list[str] = []
    while not names <= set(found):
        found += [one.name for one in client.pull(subject, "group", 30, 500)]
    assert sorted(one for one in found if not one.startswith("probe")) == sorted(names)


def test_what_a_listener_failed_at_comes_again(client: JavaClient, subject: str) -> None:
    listen(client, subject)
    client.store(subject, "thrown", fails="1")
    client.store(subject, "asked", again_ms="700")
    found: list[Got] = []
    while len([one for one in found if one.name in ("thrown", "asked")]) < 4:
        found.append(client.got())
    assert [one.times for one in found if one.name == "thrown"] == [1, 2]
    assert [one.times for one in found if one.name == "asked"] == [1, 2]
    client.stop(subject)


def test_a_broadcast_comes_to_every_client(
    client: JavaClient, class_path: str, served: QmqServed, tmp_path: Path, subject: str
) -> None:
    with JavaClient(class_path, served.http_address, "host@@two", tmp_path / "said") as other:
        for listener in (client, other):
            listener.listen(subject, "", broadcast=True)
        # Each begins with what comes after its first pull.
        names = itertools.count()
        heard_by: dict[str, set[str]] = {"one": set(), "two": set()}
        while not heard_by["one"] & heard_by["two"]:
            client.store(subject, f"m{next(names)}")
            for name, listener in (("one", client), ("two", other)):
                heard_by[name] |= {got.name for got in listener.arrived(500)}
        client.stop(subject)
        other.stop(subject)


def test_what_a_broadcast_listener_did_not_finish_comes_again_over_its_restart_and_the_servers(
    class_path: str, tmp_path: Path, subject: str
) -> None:
    names = [f"m{number}" for number in range(6)]

    def listener(place: QmqServed) -> JavaClient:
        return JavaClient(class_path, place.http_address, "host@@broadcast", tmp_path / "said")

    with QmqServed(tmp_path / "store") as served:
        with listener(served) as client:
            client.hold(*names[2:])
            client.listen(subject, "", broadcast=True)
            eventually("the listener's first pull", lambda: lag(served, subject) == 0)
            for name in names:
                client.store(subject, name)
            # Each of four threads holds one, and two are finished.
            assert {one.name for one in client.got_until(lambda found: len(found) == len(names))} == set(names)
            eventually("the acknowledgement of two", lambda: lag(served, subject) == len(names) - 2)
            client.kill()
        with listener(served) as client:
            client.hold(*names)
            client.listen(subject, "", broadcast=True)
            assert {one.name for one in client.got_until(lambda found: len(found) == len(names) - 2)} == set(names[2:])
            client.kill()
        served.kill()
        served.start()
        with listener(served) as client:
            client.listen(subject, "", broadcast=True)
            assert {one.name for one in client.got_until(lambda found: len(found) == len(names) - 2)} == set(names[2:])
            client.store(subject, "last")
            assert client.got().name == "last"
            eventually("the acknowledgement of all", lambda: lag(served, subject) == 0)


def test_a_listener_reads_again_what_is_kept_when_its_group_is_reset(
    client: JavaClient, served: QmqServed, subject: str
) -> None:
    listen(client, subject)
    names = {f"m{number}" for number in range(40)}
    for name in sorted(names):
        client.store(subject, name)
    assert {one.name for one in heard(client, names)} == names
    eventually("the acknowledgement of all", lambda: lag(served, subject) == 0)
    meanwhile = {f"n{number}" for number in range(40)}
    for number, name in enumerate(sorted(meanwhile)):
        client.store(subject, name)
        if number == len(meanwhile) // 2:
            with served.connected() as operator:
                assert operator.reset(subject, "group", bodies.EARLIEST) == frame.SUCCESS
    found = heard(client, names | meanwhile)
    assert {one.name for one in found} == names | meanwhile
    assert {one.times for one in found} == {1}
    eventually("the acknowledgement of all", lambda: lag(served, subject) == 0)
    with served.connected() as operator:
        assert operator.reset(subject, "group", bodies.LATEST) == frame.SUCCESS
    client.store(subject, "last")
    assert "last" in {one.name for one in heard(client, {"last"})}
    client.stop(subject)


def lag(served: QmqServed, subject: str) -> int | None:
    """What the only group of the subject has not finished; None before there is one."""
    with delaymq.connect(served.url) as client:
        found = [group.lag for group in client.groups() if group.subject == subject]
    return found[0] if found else None


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def test_listeners_live_through_a_restart_and_lose_nothing(class_path: str, tmp_path: Path, subject: str) -> None:
    with (
        QmqServed(tmp_path / "store") as served,
        JavaClient(class_path, served.http_address, "host@@restarted", tmp_path / "said") as client,
    ):
        listen(client, subject)
        names = {f"m{number}" for number in range(60)}
        for number, name in enumerate(sorted(names)):
            client.store(subject, name, delay_ms=DELAY_MS if number % 2 else 0)
            if number in (20, 40):
                served.kill()
                served.start()
        found = {one.name: one for one in heard(client, names)}
        assert set(found) == names
        assert all(one.late_ms >= -CLOCKS_APART_MS for one in found.values() if one.late_ms != -1)
