"""Where QMQ is known to be wrong, by its numbers, as far as that needs a whole server.

That such a test would see QMQ's fault is shown in Rust, where it can be planted: `faults_of_qmq.rs` of the
simulation and of the server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from commanding import ANY_PORTS, refused
from qmq_client import frame
from qmq_client.bodies import PRODUCER, Consumer, Pull, registration
from qmq_client.message import Message
from qmq_served.serving import HOLD_MS, QmqServed, ids, join, messages_of, taken


def retry_of(consumer: Consumer, consumer_id: str) -> Consumer:
    return Consumer(f"%RETRY%{consumer.subject}%{consumer.group}", consumer.group, consumer_id)


def test_d35_the_ten_seconds_of_qmq_come_back_by_a_key(tmp_path: Path, consumer: Consumer) -> None:
    now = 1_700_000_000_000
    messages = [
        Message(consumer.subject, "undelayed"),
        Message(consumer.subject, "past", now, now, delayed=True),
    ]
    # An hour in place of ten seconds, so that no machine is too slow to see it.
    for settings, expected in (((), ["undelayed", "past"]), (("server.qmq_undelayed_seconds=3600",), ["past"])):
        with QmqServed(tmp_path / f"store{len(settings)}", *settings) as served, served.connected() as client:
            join(client, consumer)
            assert client.send(*messages) == ()
            assert sorted(taken(client, consumer, len(expected))) == sorted(expected)
            assert client.pull(Pull(consumer)) is None


@pytest.mark.parametrize(
    "setting",
    [
        "server.drain_seconds=0",
        "server.qmq_lease_seconds=0.001",
        "server.qmq_retry_seconds=0",
        "server.qmq_attempts_max=1",
        "store.keep_finished_hours=0",
        "store.delay_days_max=0.001",
    ],
)
def test_d37_the_least_value_of_a_setting_is_one_that_starts(setting: str, tmp_path: Path) -> None:
    with QmqServed(tmp_path / "store", setting) as served, served.connected() as client:
        assert len(client.register(registration("s", PRODUCER, client_id="c")).groups) == 1
        assert client.send(Message("s", "m")) == ()


def test_d37_two_settings_that_cannot_both_hold_are_refused_at_the_start(tmp_path: Path, consumer: Consumer) -> None:
    least = "store.delay_days_max=0.00001"
    # 5 s, where nothing else is said, are longer than that: every message that is sent back would be refused.
    for setting in ("store.durability=disk", "server.qmq_retry_seconds=0.9", "server.qmq_undelayed_seconds=0.9"):
        folder = tmp_path / setting
        pairs = [part for one in (least, setting) for part in ("--set", one)]
        line = refused(2, "serve", "--store", folder, *ANY_PORTS, *pairs)
        assert "server.qmq_" in line
    with QmqServed(tmp_path / "store", least, "server.qmq_retry_seconds=0.8") as served, served.connected() as client:
        join(client, consumer)
        assert client.send(Message(consumer.subject, "m")) == ()
        assert list(taken(client, consumer, 1)) == ["m"]


def test_r1_what_a_dead_consumer_held_goes_to_others_by_the_retry_subject(tmp_path: Path, consumer: Consumer) -> None:
    settings = ("server.qmq_lease_seconds=1", "server.qmq_retry_seconds=0")
    with QmqServed(tmp_path / "store", *settings) as served, served.connected() as client:
        join(client, consumer)
        assert client.send(*messages_of(consumer.subject, 6)) == ()
        pulled = client.pull(Pull(consumer, count=6, hold_ms=HOLD_MS))
        assert pulled is not None
        # Nothing is heard of it any more; another one of its group lives on.
        other = retry_of(consumer, "host@@other")
        assert sorted(taken(client, other, len(pulled.messages))) == sorted(ids(pulled))
        rest = Consumer(consumer.subject, consumer.group, "host@@other")
        left = 6 - len(pulled.messages)
        assert len(taken(client, rest, left)) == left
        assert client.pull(Pull(rest)) is None


def test_r2_kills_forget_no_acknowledgement_and_use_no_pull_offset_again(tmp_path: Path, consumer: Consumer) -> None:
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            join(client, consumer)
        seen: dict[int, str] = {}
        for number in range(4):
            with served.connected() as client:
                sent = messages_of(consumer.subject, 5, prefix=f"{number}.")
                assert client.send(*sent) == ()
                found: list[str] = []
                while len(found) < 5:
                    last = max(seen, default=-1)
                    pulled = client.pull(Pull(consumer, last_received=last, hold_ms=HOLD_MS))
                    assert pulled is not None
                    assert pulled.first > last, "no offset stands for two messages"
                    assert client.acknowledge(consumer, pulled.first, pulled.last) == frame.SUCCESS
                    seen |= {offset: name for name, offset in pulled.offsets.items()}
                    found += ids(pulled)
                assert sorted(found) == [message.message_id for message in sent]
            served.kill()
            served.start()
            with served.connected() as client:
                assert client.pull(Pull(consumer)) is None, "nothing that was acknowledged comes again"
