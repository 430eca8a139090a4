"""QMQ's frames and bodies: what the core reads of any bytes is what the test client reads of them.

The client knows the protocol from its description alone. Where the two may differ it is said here: what is a limit of
delaymq's own (`docs/protocol.md`), and its flag for opaque bodies, which QMQ has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from differential.readers import Core, changed, corpus
from qmq_client import asked, bodies
from qmq_client.bodies import ANY_OF, EARLIEST, LATEST, NO_TAGS, EnvironmentFilter, TagFilter
from qmq_client.frame import OVERHEAD_BYTES, Frame, read_frame
from qmq_client.layout import MalformedError
from qmq_client.message import Message

VERSIONS = (7, 8, 9, 10, 0, 32_767)  # by the first byte of an input, as in rust/fuzz/src/targets/requests.rs
FRAME_BYTES_MAX = 8 << 20
FILTERS_MAX = 16
PAIRS_MAX = 64
KINDS_OF_CLIENT = range(1, 5)
CODES = range(1, 7)
HEARTBEAT = 2
MORE = "more"

thorough = settings(max_examples=300, deadline=None, derandomize=True)


def text(value: str) -> str:
    return value.encode().hex()


def message(one: Message) -> list[Any]:
    flags = one.encoded_as[0]
    pairs = [[text(key), text(value)] for key, value in one.attributes]
    names = [text(one.subject), text(one.message_id)]
    return [flags, one.create_time, one.expire_time, *names, [text(tag) for tag in one.tags], pairs]


def consumer(one: bodies.Consumer) -> list[str]:
    return [text(one.subject), text(one.group), text(one.consumer_id)]


def send(body: bytes, version: int) -> Any:
    del version
    return [[[check % 2**64, message(one)] for check, one in asked.read_send(body)]]


def filters(found: tuple[bodies.Filter, ...]) -> list[Any]:
    """Those that may keep a message back."""
    kept: list[Any] = []
    for one in found:
        if isinstance(one, EnvironmentFilter):
            kept.append([text(one.environment), text(one.part)])
        elif isinstance(one, TagFilter) and one.kind != NO_TAGS and one.tags:
            kept.append([1 if one.kind == ANY_OF else 2, [text(tag) for tag in one.tags]])
    return kept


def pull(body: bytes, version: int) -> Any:
    found = asked.read_pull(body, version)
    if len(found.filters) > FILTERS_MAX:
        raise MalformedError("more filters than delaymq takes")
    numbers = [found.count, found.offset, found.first_unacknowledged, found.last_received, found.hold_ms]
    return [*consumer(found.consumer), *numbers, found.broadcast, filters(found.filters)]


def acknowledgement(body: bytes, version: int) -> Any:
    found = asked.read_acknowledgement(body, version)
    # An offset below 0 makes it a sign of life.
    offsets = [found.first, found.last] if min(found.first, found.last) >= 0 else [-1, -1]
    return [*consumer(found.consumer), *offsets, found.broadcast]


def reset(body: bytes, version: int) -> Any:
    del version
    subject, group, code = asked.read_reset(body)
    return [text(subject), text(group), code if code in (LATEST, EARLIEST) else 0]


def registration(body: bytes, version: int) -> Any:
    del version
    if int.from_bytes(body[:2], signed=True) > PAIRS_MAX:
        raise MalformedError("more pairs than delaymq takes")
    found = asked.read_registration(body)
    if found.client_type not in KINDS_OF_CLIENT:
        raise MalformedError(f"a client of type {found.client_type}")
    names = [text(found.app), text(found.client_id), text(found.group)]
    return [text(found.subject), found.client_type, *names, found.kind != HEARTBEAT, text(found.room)]


def pulled(body: bytes, version: int) -> Any:
    del version
    found = bodies.read_pulled(body)
    return [found.first, [message(one) for one in found.messages]]


def failures(body: bytes, version: int) -> Any:
    del version
    found = bodies.read_refused(body)
    if any(one.code not in CODES for one in found):
        raise MalformedError("a code that QMQ has not")
    return [[[text(one.message_id), one.code, text(one.remark)] for one in found]]


def registered(body: bytes, version: int) -> Any:
    del version
    found = bodies.read_registered(body)
    states = [group.state for group in found.groups]
    if found.client_type not in KINDS_OF_CLIENT or any(state not in KINDS_OF_CLIENT for state in states):
        raise MalformedError("a type of client or a state that QMQ has not")
    groups = [[text(group.name), text(group.master), group.update_time, group.state] for group in found.groups]
    return [found.timestamp, text(found.subject), text(found.group), found.is_off, found.client_type, groups]


REQUESTS: dict[str, tuple[str, Callable[[bytes, int], Any]]] = {
    "send": ("qmq_send", send),
    "pull": ("qmq_pull", pull),
    "ack": ("qmq_ack", acknowledgement),
    "reset": ("qmq_consume_manage", reset),
    "register": ("qmq_register", registration),
}
ANSWERS: dict[str, tuple[str, Callable[[bytes, int], Any]]] = {
    "pulled": ("qmq_pulled", pulled),
    "failures": ("qmq_failures", failures),
    "registered": ("qmq_registered", registered),
}


def compared(core: Core, what: str, body: bytes, version: int, read: Callable[[bytes, int], Any]) -> bool:
    """Whether both have taken it; they must have read the same."""
    try:
        expected = read(body, version)
    except MalformedError:
        expected = None
    assert core.read(what, body, version) == expected, (what, version, body.hex())
    return expected is not None


@pytest.mark.parametrize("what", REQUESTS)
def test_both_read_the_requests_of_the_corpus_alike(core: Core, what: str) -> None:
    target, read = REQUESTS[what]
    taken = [compared(core, what, one[1:], VERSIONS[one[0] % len(VERSIONS)], read) for one in corpus(target)]
    assert any(taken)


@pytest.mark.parametrize("what", ANSWERS)
def test_both_read_the_answers_of_the_corpus_alike(core: Core, what: str) -> None:
    target, read = ANSWERS[what]
    taken = [compared(core, what, one, 9, read) for one in corpus(target)]
    assert any(taken)


@pytest.mark.parametrize("what", REQUESTS)
def test_both_read_any_request_alike(core: Core, what: str) -> None:
    target, read = REQUESTS[what]

    @thorough
    @given(changed([one[1:] for one in corpus(target)]), st.sampled_from(VERSIONS))
    def check(body: bytes, version: int) -> None:
        event("taken" if compared(core, what, body, version, read) else "refused")

    check()


@pytest.mark.parametrize("what", ANSWERS)
def test_both_read_any_answer_alike(core: Core, what: str) -> None:
    target, read = ANSWERS[what]

    @thorough
    @given(changed(corpus(target)))
    def check(body: bytes) -> None:
        event("taken" if compared(core, what, body, 9, read) else "refused")

    check()


shorts, longs = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
texts = st.text(max_size=12)
small = st.integers(-(2**63), 2**63 - 1)
messages = st.builds(
    Message,
    subject=texts,
    message_id=texts,
    create_time=small,
    expire_time=small,
    delayed=st.booleans(),
    low_reliability=st.booleans(),
    tags=st.lists(texts, max_size=4).map(tuple),
    attributes=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
)
consumers = st.builds(bodies.Consumer, texts, texts, texts)
tag_filters = st.builds(TagFilter, st.sampled_from([0, 1, 2]), st.lists(texts, max_size=3).map(tuple))
environments = st.builds(EnvironmentFilter, texts, texts)
pulls = st.builds(
    bodies.Pull,
    consumers,
    st.integers(-(2**31), 2**31 - 1),
    small,
    small,
    small,
    st.booleans(),
    st.lists(st.one_of(tag_filters, environments), max_size=4).map(tuple),
    small,
)


@thorough
@given(st.lists(messages, max_size=4))
def test_the_core_reads_what_the_client_sends(core: Core, sent: list[Message]) -> None:
    assert compared(core, "send", b"".join(one.sent() for one in sent), 9, send)


@thorough
@given(pulls, st.sampled_from(VERSIONS))
def test_the_core_reads_what_the_client_pulls(core: Core, wanted: bodies.Pull, version: int) -> None:
    first = wanted.filters[:1]
    if version == 8 and first and not isinstance(first[0], TagFilter):  # that version has no other
        return
    assert compared(core, "pull", wanted.encoded(version), version, pull)


@thorough
@given(consumers, st.tuples(small, small), st.booleans(), st.sampled_from(VERSIONS))
def test_the_core_reads_what_the_client_acknowledges(
    core: Core, who: bodies.Consumer, offsets: tuple[int, int], broadcast: bool, version: int
) -> None:
    body = bodies.acknowledgement(who, *offsets, version, broadcast=broadcast)
    assert compared(core, "ack", body, version, acknowledgement)


def frame(data: bytes) -> Any:
    """The first frame; what is not there whole is more than delaymq takes, or malformed, or to be waited for."""
    total = int.from_bytes(data[:4], signed=True)
    if len(data) >= 4 and total + 4 > FRAME_BYTES_MAX:
        return None
    padded = data if total < 0 else data + bytes(max(0, 4 + total - len(data)))
    try:
        found = read_frame(data)
        if found is None and len(data) >= 4 + 2 + 4:  # what is there of its head is judged at once
            read_frame(padded)
    except MalformedError:
        return None
    if found is None:
        is_wrong = len(data) >= 4 + 2 and data[4:6] != b"\x00\x12"
        return None if is_wrong else MORE
    one, length = found
    return [one.code, one.version, one.opaque, one.flag, one.request_code, one.body.hex(), length]


@settings(thorough, max_examples=400)
@given(changed([one[2:] for one in corpus("frame_decoder")]))
def test_both_read_any_frame_alike(core: Core, data: bytes) -> None:
    assert core.read("frame", data) == frame(data), data.hex()


@thorough
@given(st.builds(Frame, shorts, shorts, longs, longs, shorts, st.binary(max_size=64)))
def test_the_core_reads_the_frames_of_the_client(core: Core, one: Frame) -> None:
    data = one.encoded()
    assert core.read("frame", data) == frame(data)
    for cut in range(OVERHEAD_BYTES + 4):
        assert core.read("frame", data[:cut]) == MORE


def test_a_difference_is_seen(core: Core) -> None:
    body = bodies.acknowledgement(bodies.Consumer("s", "g", "c"), 1, 2, 9)
    with pytest.raises(AssertionError):
        compared(core, "ack", body, 9, lambda found, version: [*acknowledgement(found, version), 1])
    with pytest.raises(AssertionError):
        compared(core, "ack", body + b"\0", 9, lambda found, version: acknowledgement(found[:-1], version))
