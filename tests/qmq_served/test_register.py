"""§2.5 and §2.9 of the protocol: who is there, and where the server is."""

from __future__ import annotations

import json

import pytest

from qmq_client import bodies, frame
from qmq_client.bodies import BrokerGroup, register, registration
from qmq_client.connection import Connection
from qmq_client.layout import i16, text
from qmq_client.pages import META_ADDRESS, exchanged, page
from qmq_served.serving import QmqServed

CLIENT = "host@@md5"
EVERY_TYPE = (bodies.PRODUCER, bodies.CONSUMER, bodies.OTHER, bodies.DELAY_PRODUCER)


@pytest.mark.parametrize("client_type", EVERY_TYPE)
@pytest.mark.parametrize("kind", [bodies.ONLINE, bodies.REGISTER_HEARTBEAT])
def test_2_5_every_type_is_sent_here(served: QmqServed, client: Connection, client_type: int, kind: int) -> None:
    group = "group" if client_type == bodies.CONSUMER else ""
    found = client.register(registration("s", client_type, client_id=CLIENT, group=group, kind=kind))
    assert (found.subject, found.group, found.client_type, found.is_off) == ("s", group, client_type, False)
    [broker] = found.groups
    assert broker == BrokerGroup(broker.name, served.address, broker.update_time, bodies.READ_WRITE)
    assert broker.name
    assert found.timestamp > 0


def test_2_5_the_map_may_come_in_any_order_and_with_more_in_it(client: Connection) -> None:
    values = registration("s", bodies.CONSUMER, client_id=CLIENT, group="group")
    for turned in (values[::-1], (*values[3:], ("clientLDC", "room"), ("unknown", "x"), *values[:3])):
        assert client.register(turned).subject == "s"


def test_2_5_what_is_missing_has_a_default(client: Connection) -> None:
    found = client.register((("subject", "s"),))
    assert (found.client_type, found.group, found.is_off) == (bodies.OTHER, "", False)
    # A delay server of QMQ's says neither who it is nor of what.
    found = client.register(registration("s", bodies.PRODUCER, client_id="", app=""))
    assert len(found.groups) == 1


@pytest.mark.parametrize("subject", ["", "a/b", "a b", "a\nb", "a%b", "a" * 101, "%RETRY%a"])
def test_2_5_a_subject_that_cannot_be_is_told_so(client: Connection, subject: str) -> None:
    found = client.register(registration(subject, bodies.PRODUCER, client_id=CLIENT))
    assert (found.timestamp, found.is_off, found.groups, found.subject) == (-2, True, (), subject)


def test_2_5_a_body_that_is_no_map_is_answered_and_the_connection_goes_on(client: Connection) -> None:
    for body in (b"", b"\0", i16(-1), i16(1) + text("subject"), i16(2) + text("subject") + text("s"), i16(30_000)):
        assert client.call(frame.REGISTER, body).code == frame.BROKER_ERROR
    for values in ((("subject", "s"), ("clientTypeCode", "x")), (("subject", "s"), ("clientTypeCode", "99"))):
        # A client that gets another code than 0 notes it and goes on as before.
        assert client.call(frame.REGISTER, register(values)).code == frame.BROKER_ERROR
    assert len(client.register(registration("s", bodies.PRODUCER, client_id=CLIENT)).groups) == 1


def test_2_9_the_address_is_text_alone(served: QmqServed) -> None:
    found = page(served.http_address, META_ADDRESS)
    assert (found.status, found.content) == (200, served.address)
    assert int(found.headers["content-length"]) == len(served.address)


def test_2_9_a_client_that_keeps_its_connection_is_answered_again(served: QmqServed) -> None:
    asked = f"GET {META_ADDRESS} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    last = asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert exchanged(served.http_address, asked * 3 + last).count(served.address.encode()) == 4


def test_2_9_a_consumer_is_on_until_it_is_switched_off(served: QmqServed) -> None:
    who = {"clientId": CLIENT, "subject": "s", "consumerGroup": "group"}
    found = page(served.http_address, "/onoffline", operation="query", state="0", **who)
    assert found.status == 200
    assert (json.loads(found.content)["status"], json.loads(found.content)["message"]) == (0, "ON")
    for missing in who:
        some = {name: value for name, value in who.items() if name != missing}
        found = page(served.http_address, "/onoffline", operation="query", state="0", **some)
        assert json.loads(found.content)["status"] == -1


def test_2_9_nobody_switches_consumers_without_a_token(served: QmqServed) -> None:
    who = {"clientId": "*", "subject": "*", "consumerGroup": "*", "state": "1"}
    found = page(served.http_address, "/onoffline", operation="update", **who)
    assert (found.status, json.loads(found.content)["status"]) == (403, -1)
    with served.connected() as client:
        assert not client.register(registration("s", bodies.CONSUMER, client_id=CLIENT, group="group")).is_off


def test_2_9_other_pages_and_methods_are_refused(served: QmqServed) -> None:
    assert page(served.http_address, "/nothing").status == 404
    for asked in (b"POST /meta/address HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"no http at all\r\n\r\n"):
        said = exchanged(served.http_address, asked)
        assert said.startswith((b"HTTP/1.1 405", b"HTTP/1.1 400"))
    assert page(served.http_address, META_ADDRESS).content == served.address
