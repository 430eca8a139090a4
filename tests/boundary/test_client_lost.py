"""Connections that are lost: what was under way is told truthfully, and everything goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import delaymq
from boundary.remote import Remote
from delaymq import AmbiguousError, Closed, Moved, Outcome, Publish, Receipt, TimedOut, Unreachable
from faces import Served
from proxies import (
    ACKNOWLEDGE,
    CANCEL,
    CANCEL_KEY,
    EXPIRE,
    FLUSH,
    GIVE_BACK,
    GROUPS,
    MOVE_KEY,
    PUBLISH,
    PUBLISH_ON_TERMS,
    REDRIVE,
    REMOVE_GROUP,
    RESET_GROUP,
    START_GROUP,
    STATUS,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Relay,
)


def bodies(served: Served, subject: str, count: int) -> list[bytes]:
    """Exactly so many messages of a subject, as a consumer in the server's process gets them."""
    with served.store.subscribe(subject, group="counting") as messages:
        found = [messages.get(20) for _ in range(count)]
        assert messages.get(0.1) is None
        return [message.body for message in found if message is not None]


def test_a_publish_whose_answer_is_lost_is_in_doubt_and_stored_once(
    remote: Remote, served: Served, relay: Relay
) -> None:
    with remote.connected(relay.url) as client:
        relay.lose_answer_of(PUBLISH)
        with pytest.raises(AmbiguousError, match="may have been done or not") as caught:
            remote.call(lambda: client.publish("a", b"in doubt"))
        assert caught.value.reason is not None
        remote.call(lambda: client.publish("a", b"after it"))
    assert bodies(served, "a", 2) == [b"in doubt", b"after it"]


def test_a_publish_that_never_arrives_is_in_doubt_too(remote: Remote, served: Served, relay: Relay) -> None:
    with remote.connected(relay.url) as client:
        relay.lose_request(PUBLISH)
        with pytest.raises(AmbiguousError):
            remote.call(lambda: client.publish("a", b"lost"))
        remote.call(lambda: client.publish("a", b"after it"))
    assert bodies(served, "a", 1) == [b"after it"]


@pytest.mark.parametrize(
    "publish",
    [
        lambda client: client.publish("a", b"x", tags=("t",)),
        lambda client: client.publish("a", b"x", message_id="mine"),
        lambda client: client.publish_many("a", [b"x"]),
        lambda client: client.publish_many([Publish("a", b"x")]),
    ],
    ids=["one", "named", "many", "mixed"],
)
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_publish_in_doubt_is_sent_again_under_its_id_and_stored_once_where_that_is_asked_for(
    remote: Remote, served: Served, relay: Relay, publish: Callable[[Any], Any], is_stored: bool
) -> None:
    with remote.connected(relay.url, deduplicate=True) as client:
        (relay.lose_answer_of if is_stored else relay.lose_request)(PUBLISH_ON_TERMS)
        assert remote.call(lambda: publish(client))
    assert len(relay.bodies(PUBLISH_ON_TERMS)) == 1 + is_stored
    with served.store.subscribe("a", group="g") as messages:
        found = messages.get(20)
        assert messages.get(0.1) is None
    assert found is not None
    assert not found.message_id.startswith("dmq1-")


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_is_published_with_an_id_to_tell_it_by_is_sent_again_by_itself(
    remote: Remote, served: Served, relay: Relay, is_stored: bool
) -> None:
    with remote.connected(relay.url) as client:
        (relay.lose_answer_of if is_stored else relay.lose_request)(PUBLISH_ON_TERMS)
        receipt = remote.call(lambda: client.publish("a", b"", delay=3600, key="k", deduplicate=True))
    assert len(relay.bodies(PUBLISH_ON_TERMS)) == 1 + is_stored
    assert served.store.look_up_key("a", "k").receipt == receipt
    assert served.store.status().pending == 1


def test_what_the_server_may_have_forgotten_is_not_published_again(
    remote: Remote, served: Served, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delaymq.client.commands.carrying.Carrier.retry_for_ms", 0)  # the server was away for long
    with remote.connected(relay.url, deduplicate=True) as client:
        relay.lose_answer_of(PUBLISH_ON_TERMS)
        with pytest.raises(AmbiguousError, match="for too long"):
            remote.call(lambda: client.publish("a", b"", delay=3600))
        remote.call(lambda: client.publish("a", b"", delay=3600))
    assert len(relay.bodies(PUBLISH_ON_TERMS)) == 2
    assert served.store.status().pending == 2


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (PUBLISH_ON_TERMS, lambda client: client.publish("a", b"new", delay=60, key="k", if_exists="replace")),
        (CANCEL_KEY, lambda client: client.cancel_key("a", "k")),
        (MOVE_KEY, lambda client: client.move_key("a", "k", delay=60)),
    ],
)
def test_what_is_asked_by_key_is_asked_again_and_answered_as_the_first_time(
    remote: Remote, served: Served, relay: Relay, command: int, ask: Callable[[Any], Any]
) -> None:
    """Another message has the key by then, and keeps it."""
    store = served.store
    store.publish("a", b"old", delay=3600, key="k")
    between: list[Receipt | None] = []

    def meanwhile() -> None:
        between.append(store.look_up_key("a", "k").receipt)
        between.append(store.publish("a", b"newer", delay=1800, key="k", if_exists="replace"))

    with remote.connected(relay.url) as client:
        relay.lose_answer_of(command, meanwhile=meanwhile)
        answer = remote.call(lambda: ask(client))
    assert len(relay.bodies(command)) == 2
    first, newer = between
    assert store.look_up_key("a", "k").receipt == newer
    match answer:
        case Moved():
            assert answer == Moved(Outcome.DONE, first)
        case Receipt():
            assert answer == first
        case _:
            assert (answer, first) == (Outcome.DONE, None)


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (CANCEL_KEY, lambda client: client.cancel_key("a", "k")),
        (MOVE_KEY, lambda client: client.move_key("a", "k", delay=60)),
    ],
)
def test_what_found_nothing_finds_nothing_when_it_is_asked_again(
    remote: Remote, served: Served, relay: Relay, command: int, ask: Callable[[Any], Any]
) -> None:
    store = served.store
    with remote.connected(relay.url) as client:
        relay.lose_answer_of(command, meanwhile=lambda: store.publish("a", b"newer", delay=1800, key="k"))
        answer = remote.call(lambda: ask(client))
    assert answer in (Outcome.NOT_FOUND, Moved(Outcome.NOT_FOUND, None))
    assert len(relay.bodies(command)) == 2
    assert store.status().pending == 1


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (STATUS, lambda client, _: client.status()),
        (GROUPS, lambda client, _: client.groups()),
        (CANCEL, lambda client, receipt: client.cancel(receipt)),
    ],
)
def test_what_does_no_harm_twice_is_asked_again(
    remote: Remote, relay: Relay, command: int, ask: Callable[[Any, Any], Any]
) -> None:
    with remote.connected(relay.url) as client:
        receipt = remote.call(lambda: client.publish("a", b"", delay=3600))
        relay.lose_answer_of(command)
        found = remote.call(lambda: ask(client, receipt))
        assert relay.lost.wait(20)
        assert found is Outcome.DONE or command != CANCEL
    assert len(relay.bodies(command)) == 2


def test_a_cancel_that_nobody_answers_is_in_doubt(remote: Remote, served: Served, relay: Relay) -> None:
    with remote.connected(relay.url, timeout=1) as client:
        receipt = remote.call(lambda: client.publish("a", b"", delay=3600))
        relay.swallow(CANCEL)
        with pytest.raises(AmbiguousError, match=r"did not answer within 1 s: it may have been done or not"):
            remote.call(lambda: client.cancel(receipt))
        assert remote.call(client.status).pending == 1
    assert served.store.cancel(receipt) is Outcome.DONE


def test_a_cancel_whose_answer_is_lost_for_good_is_in_doubt(remote: Remote, served: Served, relay: Relay) -> None:
    """It was done; no connection comes any more that could say so."""
    with remote.connected(relay.url, timeout=1) as client:
        receipt = remote.call(lambda: client.publish("a", b"", delay=3600))
        relay.lose_answer_of(CANCEL, meanwhile=relay.refuse)
        with pytest.raises(AmbiguousError, match="may have been done or not"):
            remote.call(lambda: client.cancel(receipt))
    assert served.store.status().pending == 0


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (CANCEL, lambda client, receipt: client.cancel(receipt)),
        (PUBLISH_ON_TERMS, lambda client, _: client.publish("a", b"x", message_id="mine")),
    ],
)
def test_what_is_refused_when_it_is_asked_again_is_in_doubt_all_the_same(
    remote: Remote, served: Served, relay: Relay, command: int, ask: Callable[[Any, Any], Any]
) -> None:
    """The first time it was done, and the store was closed before the second: that was not the answer to the first."""
    with remote.connected(relay.url, deduplicate=True) as client:
        receipt = remote.call(lambda: client.publish("a", b"", delay=3600))
        relay.lose_answer_of(command, meanwhile=served.store.close)
        with pytest.raises(AmbiguousError, match="after a lost answer: it may have been done or not") as caught:
            remote.call(lambda: ask(client, receipt))
        assert isinstance(caught.value.__cause__, Closed)
        with pytest.raises(Closed):
            remote.call(lambda: ask(client, receipt))


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (START_GROUP, lambda client: client.start_group("a", "new")),
        (RESET_GROUP, lambda client: client.reset_group("a", "there", "latest")),
        (REMOVE_GROUP, lambda client: client.remove_group("a", "there")),
        (REDRIVE, lambda client: client.redrive("a", "there")),
        (EXPIRE, lambda client: client.expire("a", 3600)),
    ],
)
def test_what_would_differ_the_second_time_is_not_asked_again(
    remote: Remote, served: Served, relay: Relay, command: int, ask: Callable[[Any], Any]
) -> None:
    served.store.start_group("a", "there")
    with remote.connected(relay.url) as client:
        relay.lose_answer_of(command)
        with pytest.raises(AmbiguousError):
            remote.call(lambda: ask(client))
        remote.call(client.status)
    assert len(relay.bodies(command)) == 1


def test_a_subscription_is_made_again_under_its_name(remote: Remote, served: Served, relay: Relay) -> None:
    with remote.connected(relay.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        served.store.publish("a", b"1")
        first = remote.next_of(messages)
        remote.call(first.ack)
        remote.call(lambda: messages.flush(20))
        remote.cut(relay, client)
        served.store.publish("a", b"2")
        second = remote.next_of(messages)
        # It may have been on its way to the connection of which the server had not heard yet that it is cut.
        assert (second.body, second.attempt in (1, 2)) == (b"2", True)
        remote.call(second.ack)
        remote.call(messages.close)
    first_name, second_name = (body[4 + 4 + 2 + 1 + 2 + 1 :][:2] for body in relay.bodies(SUBSCRIBE))
    assert first_name == b"\0\0", "the server names it"
    assert second_name > b"\0\0"
    assert relay.connections == 2


@pytest.mark.parametrize("settle", ["ack", "nack", "dead_letter"])
def test_what_an_older_connection_delivered_settles_nothing_of_the_newer(
    remote: Remote, served: Served, relay: Relay, settle: str
) -> None:
    with remote.connected(relay.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        served.store.publish_many("a", [b"1", b"2"])
        older = [remote.next_of(messages) for _ in range(2)]
        remote.cut(relay, client)
        newer = [remote.next_of(messages) for _ in range(2)]
        assert sorted(message.body for message in newer) == [b"1", b"2"]
        assert all(message.redelivered and message.attempt == 2 for message in newer)
        for message in older:
            remote.call(lambda message=message: getattr(message, settle)(*["why"] * (settle == "dead_letter")))  # type: ignore[misc]
            assert message.settled
        with pytest.raises(AmbiguousError, match=r"2 of the messages .* may come again"):
            remote.call(lambda: messages.flush(20))
        remote.call(lambda: messages.flush(20))  # said once
        remote.call(messages.close)
        assert not remote.call(lambda: client.dead_letters("a", "g"))
        again = remote.call(lambda: client.subscribe("a", group="g"))
        assert {remote.next_of(again).body for _ in range(2)} == {b"1", b"2"}, "nothing was finished"
        remote.call(again.close)


def test_what_was_prefetched_and_not_handed_over_is_not_handed_over_twice(
    remote: Remote, served: Served, relay: Relay
) -> None:
    with remote.connected(relay.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        served.store.publish_many("a", [b"%d" % number for number in range(20)])
        remote.call(remote.next_of(messages).ack)
        remote.call(lambda: messages.flush(20))
        remote.cut(relay, client)
        found = []
        for _ in range(19):
            message = remote.next_of(messages)
            found.append(message.body)
            remote.call(message.ack)
        remote.call(lambda: messages.flush(20))
        assert sorted(found, key=int) == [b"%d" % number for number in range(1, 20)]
        assert remote.call(lambda: messages.get(0)) is None
        remote.call(messages.close)


def test_a_flush_whose_answer_is_lost_says_so(remote: Remote, served: Served, relay: Relay) -> None:
    with remote.connected(relay.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        served.store.publish("a", b"1")
        remote.call(remote.next_of(messages).ack)
        relay.lose_answer_of(FLUSH)
        with pytest.raises(AmbiguousError):
            remote.call(lambda: messages.flush(20))
        remote.call(lambda: messages.flush(20))
        remote.call(messages.close)


@pytest.mark.parametrize("command", [ACKNOWLEDGE, GIVE_BACK])
def test_settling_that_never_arrived_is_told_at_the_end(
    remote: Remote, served: Served, relay: Relay, command: int
) -> None:
    with remote.connected(relay.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        served.store.publish("a", b"1")
        message = remote.next_of(messages)
        relay.lose_request(command)
        remote.call(message.ack if command == ACKNOWLEDGE else message.nack)
        with pytest.raises(AmbiguousError, match="may come again"):
            remote.call(messages.close)
    assert bodies(served, "a", 1) == [b"1"]


def test_a_close_whose_answer_is_lost_is_fine_where_nothing_is_in_doubt(
    remote: Remote, served: Served, relay: Relay
) -> None:
    with remote.connected(relay.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        served.store.publish("a", b"1")
        remote.call(remote.next_of(messages).ack)
        remote.call(lambda: messages.flush(20))
        relay.lose_answer_of(UNSUBSCRIBE)
        remote.call(messages.close)
        assert relay.lost.wait(20)


def test_what_is_asked_while_there_is_no_connection_waits_for_the_next(
    remote: Remote, served: Served, relay: Relay
) -> None:
    with remote.connected(relay.url) as client:
        for _ in range(5):
            remote.cut(relay, client)
            remote.call(lambda: client.publish("a", b"x"))
    assert bodies(served, "a", 5) == [b"x"] * 5


def test_where_no_connection_comes_a_call_says_so_in_time(remote: Remote, folder: Path) -> None:
    served = Served(folder)
    client = remote.connect(served.url, timeout=0.3)
    served.close()
    for call in (client.status, lambda: client.publish("a", b""), lambda: client.subscribe("a", group="g")):
        with pytest.raises((Unreachable, AmbiguousError, TimedOut)):
            remote.call(call)
    with pytest.raises(Unreachable, match="nothing was asked"):
        remote.call(lambda: client.publish("a", b""))
    remote.call(client.close)


def test_a_client_that_is_closed_ends_the_waits_of_threads(served: Served) -> None:
    client = delaymq.connect(served.url)
    messages = client.subscribe("a", group="g")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            assert messages.get() is None
        except Closed as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    client.close()
    thread.join(20)
    assert not thread.is_alive()
    with pytest.raises(Closed):
        messages.get(0)
