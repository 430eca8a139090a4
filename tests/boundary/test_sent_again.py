"""What a client sends again by itself where an answer was lost, what it does not, and what the server makes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import delaymq
from boundary.remote import Remote
from delaymq import AmbiguousError, Moved, Outcome, Publish
from faces import Served
from proxies import CANCEL_KEY, CANCEL_KEYS, MOVE, MOVE_KEY, MOVE_KEYS, PUBLISH, PUBLISH_ON_TERMS, Relay

HOUR_S = 3_600


class Index:
    """A whole number that is no int, as numpy has them."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def many(client: Any, name: str) -> Any:
    return client.publish_many("a", [f"{name}-{place}".encode() for place in range(5)], HOUR_S)


def mixed(client: Any, name: str) -> Any:
    return client.publish_many([Publish("a", f"{name}-{place}".encode(), delay=HOUR_S) for place in range(5)])


def spread(client: Any, name: str) -> Any:
    return client.publish_many("a", [f"{name}-{place}".encode() for place in range(5)], HOUR_S, jitter=60)


def with_their_own(client: Any, name: str) -> Any:
    rows = [Publish("a", b"x", delay=HOUR_S, message_id=f"{name}-{place}", key=f"{name}-{place}") for place in range(5)]
    return client.publish_many(rows)


@pytest.mark.parametrize("publish", [many, mixed, spread, with_their_own])
def test_of_a_client_that_deduplicates_each_message_is_stored_once_however_many_answers_are_lost(
    remote: Remote, served: Served, relay: Relay, publish: Callable[[Any, str], Any]
) -> None:
    with remote.connected(relay.url, deduplicate=True) as client:
        for lost in range(4):
            left = [lost]

            def lose_another(left: list[int] = left) -> None:
                if left[0]:
                    left[0] -= 1
                    relay.lose_answer_of(PUBLISH_ON_TERMS, meanwhile=lose_another)

            lose_another()
            receipts = remote.call(partial(publish, client, f"round-{lost}"))
            assert {one.sequence for one in receipts} <= {one.receipt.sequence for one in served.store.pending("a")}
    assert len(relay.bodies(PUBLISH_ON_TERMS)) == 4 + 0 + 1 + 2 + 3
    assert not relay.bodies(PUBLISH)
    assert served.store.status().pending == 20


def test_a_delay_that_is_no_number_of_python_is_refused_and_not_sent_without_ids(
    remote: Remote, served: Served, relay: Relay
) -> None:
    delay: Any = Index(HOUR_S * 1_000)
    with remote.connected(relay.url, deduplicate=True) as client:
        with pytest.raises(delaymq.WrongType) as caught:
            remote.call(lambda: client.publish_many("a", [b"x"], delay))
        assert caught.value.argument == "delays"
    assert served.store.status().pending == 0


def test_a_key_does_not_make_a_message_be_told_by_an_id_of_its_own(remote: Remote, served: Served) -> None:
    """Two messages may have one id where nobody asked to be judged by it, whatever keys they have."""
    with remote.connected(served.url) as client:

        def publish(body: bytes, key: str) -> Any:
            return remote.call(
                lambda: client.publish("a", body, delay=HOUR_S, key=key, if_exists="replace", message_id="order-17")
            )

        first, second, replaced = publish(b"1", "k1"), publish(b"2", "k2"), publish(b"3", "k1")
        assert len({str(one) for one in (first, second, replaced)}) == 3
        assert served.store.look_up_key("a", "k1").receipt == replaced
        rows = [Publish("a", b"4", delay=HOUR_S, key="k1", if_exists="replace", message_id="order-17")]
        [again] = remote.call(lambda: client.publish_many(rows))
        assert served.store.look_up_key("a", "k1").receipt == again != replaced
    assert served.store.status().pending == 2


@pytest.mark.parametrize("in_a_batch", [False, True])
def test_what_has_a_key_and_an_id_that_nobody_asked_to_be_judged_by_is_not_sent_again(
    remote: Remote, relay: Relay, in_a_batch: bool
) -> None:
    row = Publish("a", b"x", delay=HOUR_S, key="k", message_id="mine")

    def publish(client: Any) -> Any:
        return client.publish_many([row]) if in_a_batch else client.publish("a", b"x", key="k", message_id="mine")

    with remote.connected(relay.url) as client:
        relay.lose_answer_of(PUBLISH_ON_TERMS)
        with pytest.raises(AmbiguousError):
            remote.call(lambda: publish(client))
    assert len(relay.bodies(PUBLISH_ON_TERMS)) == 1


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (PUBLISH_ON_TERMS, lambda client: client.publish("a", b"", delay=HOUR_S, deduplicate=True)),
        (PUBLISH_ON_TERMS, lambda client: client.publish("a", b"", delay=HOUR_S, key="k", if_exists="replace")),
        (PUBLISH_ON_TERMS, lambda client: client.publish_many([Publish("a", b"", HOUR_S, key="new")])),
        (CANCEL_KEY, lambda client: client.cancel_key("a", "k")),
        (MOVE_KEY, lambda client: client.move_key("a", "k", delay=60)),
        (CANCEL_KEYS, lambda client: client.cancel_keys("a", ["k", "l"])),
        (MOVE_KEYS, lambda client: client.move_keys("a", ["k", "l"], delay=60)),
    ],
)
@pytest.mark.parametrize("retry_ambiguous", [True, False])
def test_what_is_known_again_by_an_id_is_sent_again_unless_that_is_not_wanted(
    remote: Remote, relay: Relay, command: int, ask: Callable[[Any], Any], retry_ambiguous: bool
) -> None:
    with remote.connected(relay.url, retry_ambiguous=retry_ambiguous) as client:
        relay.lose_answer_of(command)
        if retry_ambiguous:
            remote.call(lambda: ask(client))
        else:
            with pytest.raises(AmbiguousError, match="may have been done or not"):
                remote.call(lambda: ask(client))
    assert len(relay.bodies(command)) == 1 + retry_ambiguous


@pytest.mark.parametrize(
    "publish",
    [
        lambda client: client.publish("a", b"", delay=HOUR_S),
        lambda client: client.publish("a", b"", delay=HOUR_S, message_id="mine"),
        lambda client: client.publish_many("a", [b""], HOUR_S),
        lambda client: client.publish_many([Publish("a", b"", HOUR_S, message_id="mine"), Publish("a", b"", HOUR_S)]),
    ],
)
def test_what_has_nothing_to_be_known_by_is_never_sent_again(
    remote: Remote, relay: Relay, publish: Callable[[Any], Any]
) -> None:
    with remote.connected(relay.url, retry_ambiguous=True) as client:
        relay.lose_answer_of(PUBLISH)
        with pytest.raises(AmbiguousError):
            remote.call(lambda: publish(client))
    assert len(relay.bodies(PUBLISH)) == 1


def test_a_move_that_the_server_may_have_forgotten_is_in_doubt_and_not_answered_as_not_found(
    remote: Remote, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    with remote.connected(relay.url) as client:
        receipt = remote.call(lambda: client.publish("a", b"", delay=HOUR_S))
        relay.lose_answer_of(MOVE)
        assert remote.call(lambda: client.move(receipt, delay=60)).outcome is Outcome.DONE
        monkeypatch.setattr("delaymq.client.commands.carrying.Carrier.retry_for_ms", 0)  # the server was away for long
        receipt = remote.call(lambda: client.publish("a", b"", delay=HOUR_S))
        relay.lose_answer_of(MOVE)
        with pytest.raises(AmbiguousError, match="for too long"):
            remote.call(lambda: client.move(receipt, delay=60))


def test_one_id_in_two_subjects_of_two_clients_and_of_commands_is_one_of_each(remote: Remote, served: Served) -> None:
    with remote.connected(served.url) as one, remote.connected(served.url, deduplicate=True) as other:

        def publish(client: Any, subject: str, body: bytes = b"x") -> Any:
            publishing = {"delay": HOUR_S, "message_id": "same", "deduplicate": True}
            return remote.call(lambda: client.publish(subject, body, key=None, **publishing))

        first = publish(one, "a")
        assert publish(other, "a", b"another body") == first
        assert publish(other, "b") != first
        remote.call(lambda: one.publish("a", b"", delay=HOUR_S, key="same"))
        moved = remote.call(lambda: one.move_key("a", "same", delay=60, command_id="same"))
        assert moved.outcome is Outcome.DONE
        assert remote.call(lambda: other.move_key("a", "same", delay=60, command_id="same")) == moved
        assert remote.call(lambda: other.cancel_key("a", "same", command_id="same")) is Outcome.DONE
        remote.call(lambda: one.publish("a", b"", delay=HOUR_S, key="same"))
        assert remote.call(lambda: one.cancel_key("a", "same", command_id="same")) is Outcome.DONE
        assert remote.call(lambda: other.move_key("a", "same", delay=60, command_id="same")) == moved
        assert remote.call(lambda: other.move_key("a", "same", delay=61, command_id="same")).outcome is Outcome.DONE
        assert remote.call(lambda: other.move_key("b", "same", delay=60, command_id="same")) == Moved(
            Outcome.NOT_FOUND, None
        )
    assert served.store.status().pending == 3


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\0b", "a/b", "\ud800", "é" * 101])
def test_an_id_that_cannot_be_is_refused_by_name_and_nothing_is_done(remote: Remote, served: Served, name: str) -> None:
    with remote.connected(served.url, deduplicate=True) as client:
        remote.call(lambda: client.publish("a", b"", delay=HOUR_S, key="k"))
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("message_id", lambda: client.publish("a", b"", message_id=name)),
            ("message_id", lambda: client.publish_many([Publish("a", b"", message_id=name)])),
            ("command_id", lambda: client.cancel_key("a", "k", command_id=name)),
            ("command_id", lambda: client.move_key("a", "k", delay=9, command_id=name)),
            ("command_id", lambda: client.cancel_keys("a", ["k"], command_id=name)),
            ("command_id", lambda: client.move_keys("a", ["k"], delay=9, command_id=name)),
        ]
        for argument, call in calls:
            with pytest.raises((delaymq.InvalidArgument, delaymq.TooLarge)) as caught:
                remote.call(call)
            assert caught.value.argument == argument
    assert served.store.status().pending == 1


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (PUBLISH_ON_TERMS, lambda client, _: client.publish("a", b"x", delay=HOUR_S, deduplicate=True)),
        (CANCEL_KEY, lambda client, _: client.cancel_key("a", "k")),
        (MOVE_KEYS, lambda client, _: client.move_keys("a", ["k", "l"], delay=60)),
        (MOVE, lambda client, receipt: client.move(receipt, delay=60)),
    ],
)
def test_what_another_store_at_the_address_does_not_know_again_is_in_doubt(
    remote: Remote, relay: Relay, folder: Path, command: int, ask: Callable[[Any, Any], Any]
) -> None:
    """A server was replaced by one of an empty store: the publish would be stored in both."""
    other = Served(folder.with_name("other"))
    host, port = other.url.removeprefix("delaymq://").split(":")
    with remote.connected(relay.url) as client:
        receipt = remote.call(lambda: client.publish("a", b"", delay=HOUR_S))

        def replace() -> None:
            relay._server = (host, int(port))

        relay.lose_answer_of(command, meanwhile=replace)
        with pytest.raises(AmbiguousError, match="has another store now"):
            remote.call(lambda: ask(client, receipt))
        remote.call(lambda: client.publish("a", b"", delay=HOUR_S))
    assert other.store.status().pending == 1
    other.close()
