"""§2.3 of the protocol: PULL."""

from __future__ import annotations

import pytest

from qmq_client import bodies, frame
from qmq_client.bodies import (
    ALL_OF,
    ANY_OF,
    NO_TAGS,
    Consumer,
    EnvironmentFilter,
    Filter,
    Pull,
    TagFilter,
    UnknownFilter,
    read_pulled,
)
from qmq_client.connection import Connection
from qmq_client.layout import i32, i64
from qmq_client.message import Message, attributes_of, send_body
from qmq_served.serving import HOLD_MS, QmqServed, ids, join, messages_of, taken

COUNT_MAX = 10_000
RETRY_DELAY_MS = 5_000


def send(client: Connection, *messages: Message) -> None:
    assert client.send(*messages) == ()


def test_2_3_nothing_there_is_told_at_once_to_who_does_not_wait(client: Connection, consumer: Consumer) -> None:
    for hold_ms in (-1, -300_000, -(2**63)):
        assert client.pull(Pull(consumer, hold_ms=hold_ms)) is None


def test_2_3_nothing_there_is_told_when_the_time_is_over(client: Connection, consumer: Consumer) -> None:
    for hold_ms in (0, 1, 300):
        assert client.pull(Pull(consumer, hold_ms=hold_ms)) is None


REFUSED = {
    "no subject": Pull(Consumer("", "group", "id")),
    "no group": Pull(Consumer("s", "", "id")),
    "no consumer": Pull(Consumer("s", "group", "")),
    "a subject with a slash": Pull(Consumer("a/b", "group", "id")),
    "a group with a slash": Pull(Consumer("s", "a/b", "id")),
    "a consumer with a slash": Pull(Consumer("s", "group", "a/b")),
    "a subject of two lines": Pull(Consumer("a\nb", "group", "id")),
    "a group of two lines": Pull(Consumer("s", "a\rb", "id")),
    "a consumer of two lines": Pull(Consumer("s", "group", "a\r\nb")),
    "a group with a percent sign": Pull(Consumer("s", "a%b", "id")),
    "no messages": Pull(Consumer("s", "group", "id"), count=0),
    "less than none": Pull(Consumer("s", "group", "id"), count=-1),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_2_3_a_pull_that_cannot_be_is_told_that_there_is_nothing(refused: Pull, client: Connection) -> None:
    assert client.pull(refused) is None


def test_2_3_a_pull_that_cannot_be_read_is_an_error_and_the_connection_goes_on(
    client: Connection, consumer: Consumer
) -> None:
    whole = Pull(consumer).encoded(9)
    several = consumer.encoded() + i32(50) + i64(-1) * 3 + i64(-1) + b"\0"
    broken = [
        b"",
        whole[:-1],
        whole + b"\0",
        whole[: len(consumer.encoded())],
        several + i32(-1),
        several + i32(1_000_000),
        Pull(consumer, filters=(UnknownFilter(3, b""),)).encoded(9),
        Pull(consumer, filters=(UnknownFilter(-1, b"\0\0"),)).encoded(9),
    ]
    for body in broken:
        answer = client.call(frame.PULL, body)
        assert (answer.code, answer.body) == (frame.BROKER_ERROR, b""), body.hex()
    assert client.pull(Pull(consumer)) is None


def test_2_3_pull_offsets_begin_at_0_and_are_dense(client: Connection, consumer: Consumer) -> None:
    join(client, consumer)
    send(client, *messages_of(consumer.subject, 10))
    found: dict[str, int] = {}
    while len(found) < 10:
        pulled = client.pull(Pull(consumer, count=3, last_received=len(found) - 1, hold_ms=HOLD_MS))
        assert pulled is not None
        assert pulled.first == len(found)
        assert len(pulled.messages) <= 3
        found |= pulled.offsets
    assert found == {f"m{number}": number for number in range(10)}


def test_2_3_two_consumers_share_a_group_each_with_offsets_of_its_own(client: Connection, subject: str) -> None:
    one, two = Consumer(subject, "group", "one"), Consumer(subject, "group", "two")
    join(client, one, two)
    send(client, *messages_of(subject, 10))
    found: dict[str, dict[str, int]] = {"one": {}, "two": {}}
    while sum(map(len, found.values())) < 10:
        for consumer in (one, two):
            mine = found[consumer.consumer_id]
            pulled = client.pull(Pull(consumer, count=2, last_received=len(mine) - 1))
            if pulled is not None:
                assert pulled.first == len(mine)
                mine |= pulled.offsets
    assert not found["one"].keys() & found["two"].keys()
    assert sorted(found["one"].keys() | found["two"].keys()) == sorted(f"m{number}" for number in range(10))


def test_2_3_each_group_gets_everything(client: Connection, subject: str) -> None:
    groups = [Consumer(subject, f"group{number}", "one") for number in range(3)]
    join(client, *groups)
    send(client, *messages_of(subject, 5))
    for consumer in groups:
        assert sorted(taken(client, consumer, 5)) == [f"m{number}" for number in range(5)]


def test_2_3_a_new_group_begins_at_the_latest_message(client: Connection, subject: str) -> None:
    send(client, *messages_of(subject, 5, prefix="before"))
    late = Consumer(subject, "late", "one")
    assert client.pull(Pull(late)) is None
    send(client, Message(subject, "after"))
    assert ids(client.pull(Pull(late, hold_ms=HOLD_MS))) == ["after"]


def test_2_3_what_was_not_acknowledged_comes_again_under_its_offset(
    served: QmqServed, client: Connection, consumer: Consumer
) -> None:
    join(client, consumer)
    send(client, *messages_of(consumer.subject, 6))
    first = client.pull(Pull(consumer, count=6, hold_ms=HOLD_MS))
    assert first is not None
    while first.last < 5:
        more = client.pull(Pull(consumer, last_received=first.last, hold_ms=HOLD_MS))
        assert more is not None
        first = bodies.Pulled(first.first, first.messages + more.messages)
    assert client.acknowledge(consumer, 0, 1) == frame.SUCCESS
    with served.connected() as again:
        # It knows nothing of what it had.
        pulled = again.pull(Pull(consumer, hold_ms=HOLD_MS))
        assert pulled is not None
        assert (pulled.first, pulled.messages) == (2, first.messages[2:])
        # It had some of it.
        pulled = again.pull(Pull(consumer, last_received=3, hold_ms=HOLD_MS))
        assert pulled is not None
        assert (pulled.first, pulled.messages) == (4, first.messages[4:])
        # It has all of it.
        assert again.pull(Pull(consumer, last_received=5)) is None
        send(again, Message(consumer.subject, "new"))
        pulled = again.pull(Pull(consumer, last_received=5, hold_ms=HOLD_MS))
        assert pulled is not None
        assert pulled.offsets == {"new": 6}


def test_2_3_a_pull_is_held_until_a_message_comes(client: Connection, consumer: Consumer) -> None:
    join(client, consumer)
    held = client.ask_pull(Pull(consumer, hold_ms=HOLD_MS))
    send(client, Message(consumer.subject, "m"))
    assert ids(client.pulled(held)) == ["m"]


def test_2_3_a_pull_is_held_until_a_delayed_message_is_due(
    served: QmqServed, client: Connection, consumer: Consumer
) -> None:
    join(client, consumer)
    due = served.now_ms() + 400
    held = client.ask_pull(Pull(consumer, hold_ms=HOLD_MS))
    send(client, Message(consumer.subject, "m", expire_time=due, delayed=True))
    assert ids(client.pulled(held)) == ["m"]
    assert served.now_ms() >= due


def test_2_3_a_pull_whose_connection_is_gone_takes_nothing_along(
    served: QmqServed, client: Connection, consumer: Consumer
) -> None:
    join(client, consumer)
    gone = served.connected()
    gone.ask_pull(Pull(consumer, hold_ms=300_000))
    assert gone.pull(Pull(Consumer(consumer.subject, "other", "one"))) is None, "the one before was taken, too"
    gone.close()
    send(client, Message(consumer.subject, "m"))
    assert ids(client.pull(Pull(consumer, hold_ms=HOLD_MS))) == ["m"]


def test_2_3_more_than_ten_thousand_are_never_answered_at_once(client: Connection, consumer: Consumer) -> None:
    join(client, consumer)
    for part in range(2):
        send(client, *messages_of(consumer.subject, 6_000, prefix=f"{part}."))
    found: list[str] = []
    while len(found) < 12_000:
        pull = Pull(consumer, count=2**31 - 1, last_received=len(found) - 1, hold_ms=HOLD_MS)
        pulled = client.pull(pull)
        assert pulled is not None
        assert pulled.first == len(found)
        assert len(pulled.messages) <= COUNT_MAX
        found += ids(pulled)
        assert client.acknowledge(consumer, pulled.first, pulled.last) == frame.SUCCESS
    assert len(set(found)) == 12_000


TAGGED = {"none": (), "a": ("a",), "b": ("b",), "ab": ("a", "b"), "abc": ("a", "b", "c"), "z": ("z",)}
FILTERS: dict[str, tuple[tuple[Filter, ...], set[str]]] = {
    "no filter": ((), set(TAGGED)),
    "no tags wanted": ((TagFilter(NO_TAGS),), set(TAGGED)),
    "none of any": ((TagFilter(ANY_OF),), set(TAGGED)),
    "none of all": ((TagFilter(ALL_OF),), set(TAGGED)),
    "any of one": ((TagFilter(ANY_OF, ("a",)),), {"a", "ab", "abc"}),
    "any of two": ((TagFilter(ANY_OF, ("b", "z")),), {"b", "ab", "abc", "z"}),
    "all of two": ((TagFilter(ALL_OF, ("a", "b")),), {"ab", "abc"}),
    "nobody's": ((TagFilter(ANY_OF, ("q",)),), set()),
    "two filters": ((TagFilter(ANY_OF, ("a",)), TagFilter(ANY_OF, ("c",))), {"abc"}),
}


def everything(client: Connection, pull: Pull) -> set[str]:
    """All that a group gets by this pull, asked for until nothing comes any more."""
    found: set[str] = set()
    offset = pull.last_received
    while True:
        asked = Pull(pull.consumer, last_received=offset, hold_ms=pull.hold_ms, filters=pull.filters)
        pulled = client.pull(asked)
        if pulled is None:
            return found
        assert pulled.first > offset
        offset = pulled.last
        found |= set(ids(pulled))
        assert client.acknowledge(pull.consumer, pulled.first, pulled.last) == frame.SUCCESS


@pytest.mark.parametrize(("filters", "expected"), FILTERS.values(), ids=FILTERS)
def test_2_3_tags_are_judged_by_the_server(
    filters: tuple[Filter, ...], expected: set[str], client: Connection, subject: str
) -> None:
    plain, filtering = Consumer(subject, "plain", "one"), Consumer(subject, "filtering", "one")
    join(client, plain, filtering)
    send(client, *(Message(subject, name, tags=tags) for name, tags in TAGGED.items()))
    assert set(taken(client, plain, len(TAGGED))) == set(TAGGED), "all are there"
    assert everything(client, Pull(filtering, filters=filters, hold_ms=500)) == expected
    # Messages that did not pass are finished for this group.
    assert everything(client, Pull(filtering)) == set()


RARE = (TagFilter(ANY_OF, ("rare",)),)


def with_rare(subject: str, count: int) -> list[Message]:
    """So many messages, of which every hundredth has a tag."""
    return [Message(subject, f"m{at}", tags=("rare",) if at % 100 == 99 else ("common",)) for at in range(count)]


@pytest.mark.parametrize("version", [8, 9])
def test_2_3_an_answer_is_full_though_one_message_of_a_hundred_passes(
    served: QmqServed, version: int, subject: str
) -> None:
    with served.connected(version=version) as client:
        consumer, plain = Consumer(subject, "filtering", "one"), Consumer(subject, "plain", "one")
        join(client, consumer, plain)
        send(client, *with_rare(subject, 3_000))
        assert len(taken(client, plain, 3_000)) == 3_000, "all are ready"
        for first in (0, 10, 20):
            pulled = client.pull(Pull(consumer, count=10, last_received=first - 1, hold_ms=HOLD_MS, filters=RARE))
            assert pulled is not None
            assert (pulled.first, pulled.last) == (first, first + 9), "full, and without a gap"
            assert ids(pulled) == [f"m{at * 100 + 99}" for at in range(first, first + 10)]
        assert client.pull(Pull(consumer, last_received=29, filters=RARE)) is None
        assert client.acknowledge(consumer, 0, 29) == frame.SUCCESS
        assert client.pull(Pull(consumer, filters=RARE)) is None, "nothing is left to come again"
        # Messages that did not pass are finished, and none of them is a retry.
        retries = Consumer(f"%RETRY%{subject}%filtering", "filtering", "one")
        assert client.pull(Pull(retries, hold_ms=0)) is None
        assert everything(client, Pull(consumer, last_received=29)) == set()


def test_2_3_filtered_messages_have_no_offset(client: Connection, consumer: Consumer) -> None:
    join(client, consumer)
    mine = (TagFilter(ANY_OF, ("a",)),)
    offset = -1
    for round_ in range(3):
        send(client, *messages_of(consumer.subject, 20, prefix=f"x{round_}.", tags=("other",)))
        send(client, Message(consumer.subject, f"mine{round_}", tags=("a",)))
        pulled = client.pull(Pull(consumer, last_received=offset, hold_ms=HOLD_MS, filters=mine))
        assert pulled is not None
        assert (ids(pulled), pulled.first) == ([f"mine{round_}"], round_)
        offset = pulled.last
    # A lost answer comes again, whole.
    again = client.pull(Pull(consumer, hold_ms=HOLD_MS, filters=mine))
    assert again is not None
    assert (ids(again), again.first) == (["mine0", "mine1", "mine2"], 0)
    assert client.acknowledge(consumer, 0, 2) == frame.SUCCESS


def test_2_3_consumers_of_a_group_share_what_passes(client: Connection, subject: str) -> None:
    consumers = [Consumer(subject, "group", name) for name in ("one", "two")]
    join(client, *consumers)
    send(client, *with_rare(subject, 2_000))
    found: dict[Consumer, list[str]] = {consumer: [] for consumer in consumers}
    while sum(map(len, found.values())) < 20:
        for consumer, got in found.items():
            pulled = client.pull(Pull(consumer, count=3, last_received=len(got) - 1, hold_ms=100, filters=RARE))
            if pulled is not None:
                assert pulled.first == len(got), "each counts its own, without a gap"
                got.extend(ids(pulled))
    assert sorted(name for got in found.values() for name in got) == sorted(f"m{at}" for at in range(99, 2_000, 100))
    assert all(found.values())


def test_2_3_a_filter_holds_back_nothing_that_comes_behind(client: Connection, consumer: Consumer) -> None:
    join(client, consumer)
    send(client, *messages_of(consumer.subject, 500, tags=("other",)), Message(consumer.subject, "mine", tags=("a",)))
    mine = (TagFilter(ANY_OF, ("a",)),)
    assert everything(client, Pull(consumer, filters=mine, hold_ms=2_000)) == {"mine"}


def test_2_3_a_part_of_an_environment_is_kept_to_itself(client: Connection, subject: str) -> None:
    consumers = [Consumer(subject, f"group{number}", "one") for number in range(2)]
    join(client, *consumers)
    places = {"here": ("test", "one"), "there": ("test", "two"), "nowhere": None}
    for name, place in places.items():
        labels = {} if place is None else {"qmq_env": place[0], "qmq_subEnv": place[1]}
        send(client, Message(subject, name, attributes=attributes_of(1, **labels)))
    # The rules of QMQ's own servers are its operators'; what is equal passes under any.
    found = everything(client, Pull(consumers[0], filters=(EnvironmentFilter("test", "one"),), hold_ms=500))
    assert "here" in found
    assert "there" not in found
    assert everything(client, Pull(consumers[1], hold_ms=500)) == set(places)


def test_2_3_a_retry_that_a_consumer_sends_waits_before_it_comes(
    served: QmqServed, client: Connection, subject: str
) -> None:
    retries = Consumer(f"%RETRY%{subject}%group", "group", "one")
    # Its group is there before it is, and gets it though it never pulled.
    sent = served.now_ms()
    send(client, Message(retries.subject, "again"))
    assert ids(client.pull(Pull(retries, hold_ms=HOLD_MS))) == ["again"]
    assert served.now_ms() >= sent + RETRY_DELAY_MS


@pytest.mark.parametrize("prefix", ["%RETRY%", "%DEAD_RETRY%"])
def test_2_1_retry_and_dead_letter_subjects_are_subjects_to_every_command(
    prefix: str, client: Connection, subject: str
) -> None:
    # Longer than any other subject may be.
    long = f"{prefix}{subject:s>100}%{'g' * 100}"
    consumer = Consumer(long, "g" * 100, "one")
    send(client, Message(long, "m"))
    assert client.pull(Pull(consumer)) is None or prefix == "%DEAD_RETRY%"
    assert client.heartbeat(consumer) == frame.SUCCESS
    assert client.acknowledge(consumer, 0, 0) == frame.SUCCESS
    assert client.reset(long, consumer.group, bodies.LATEST) == frame.SUCCESS
    values = bodies.registration(long, bodies.CONSUMER, client_id="one", group=consumer.group)
    assert len(client.register(values).groups) == 1


def test_2_3_version_8_has_one_filter_of_tags(served: QmqServed, subject: str) -> None:
    with served.connected(version=8) as client:
        plain, filtering = Consumer(subject, "plain", "one"), Consumer(subject, "filtering", "one")
        join(client, plain, filtering)
        send(client, *(Message(subject, name, tags=tags) for name, tags in TAGGED.items()))
        assert everything(client, Pull(plain, hold_ms=500)) == set(TAGGED)
        wanted = Pull(filtering, filters=(TagFilter(ALL_OF, ("a", "b")),), hold_ms=500)
        assert everything(client, wanted) == {"ab", "abc"}


@pytest.mark.parametrize("version", [4, 7])
def test_2_3_before_version_8_there_are_no_filters_and_no_tags(served: QmqServed, version: int, subject: str) -> None:
    with served.connected(version=version) as client:
        consumer = Consumer(subject, "group", "one")
        join(client, consumer)
        message = Message(subject, "tagged", tags=("a", "b"))
        send(client, message)
        answer = client.call(frame.PULL, Pull(consumer, hold_ms=HOLD_MS).encoded(version))
        assert answer.code == frame.SUCCESS
        # The tags are gone, the bit that says so is not.
        bare = Message(subject, "tagged").encoded(flag=message.flag)
        assert answer.body == i64(0) + i64(-1) + bare
        assert client.acknowledge(consumer, 0, 0) == frame.SUCCESS


def test_2_3_a_version_that_nobody_knows_is_read_as_the_latest(served: QmqServed, consumer: Consumer) -> None:
    with served.connected(version=99) as client:
        join(client, consumer)
        send(client, Message(consumer.subject, "m", tags=("a",)))
        assert ids(client.pull(Pull(consumer, hold_ms=HOLD_MS))) == ["m"]


def test_2_3_an_answer_begins_with_its_first_offset_and_is_messages_without_checks(
    client: Connection, consumer: Consumer
) -> None:
    join(client, consumer)
    batch = messages_of(consumer.subject, 2)
    client.ask(frame.SEND, send_body(batch))
    body = b""
    for _ in range(2):
        answer = client.call(frame.PULL, Pull(consumer, count=1, last_received=-1, hold_ms=HOLD_MS).encoded(9))
        pulled = read_pulled(answer.body)
        body += answer.body[16:]
        assert answer.body[:8] == i64(pulled.first)
        assert client.acknowledge(consumer, pulled.first, pulled.last) == frame.SUCCESS
    assert body == b"".join(message.encoded() for message in batch)


def test_2_3_a_broadcast_gives_every_consumer_everything_in_its_order(client: Connection, subject: str) -> None:
    consumers = [Consumer(subject, name, name) for name in ("host@@one", "host@@two")]
    for consumer in consumers:
        assert client.pull(Pull(consumer, broadcast=True)) is None
    send(client, *messages_of(subject, 3))
    offsets = []
    for consumer in consumers:
        found: dict[str, int] = {}
        while len(found) < 3:
            last = max(found.values(), default=-1)
            pulled = client.pull(Pull(consumer, broadcast=True, last_received=last, hold_ms=HOLD_MS))
            assert pulled is not None
            found |= pulled.offsets
            code = client.acknowledge(consumer, pulled.first, pulled.last, broadcast=True)
            assert code == frame.SUCCESS
        offsets.append(found)
    assert offsets[0] == offsets[1]
    numbers = sorted(offsets[0].values())
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_2_3_a_new_broadcast_begins_at_the_latest_message(client: Connection, subject: str) -> None:
    send(client, *messages_of(subject, 3, prefix="before"))
    consumer = Consumer(subject, "host@@one", "host@@one")
    assert client.pull(Pull(consumer, broadcast=True)) is None
    send(client, Message(subject, "after"))
    assert ids(client.pull(Pull(consumer, broadcast=True, hold_ms=HOLD_MS))) == ["after"]
