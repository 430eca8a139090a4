"""Messages as objects: their values, what they are not, and their documentation."""

from __future__ import annotations

import ast
import asyncio
import copy
import gc
import inspect
import itertools
import pickle
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import delaymq
from delaymq import AsyncMessage, InvalidArgument, Message, TooLarge, WrongType
from delaymq._asyncio.delivery import MessageDelivery, Settling
from delaymq._asyncio.event_loop import EventLoop
from delaymq.message import Received
from unit.fake_core import FakeSubscription
from unit.test_subscription import only, subscription_over

if TYPE_CHECKING:
    from delaymq._core import Subscription as CoreSubscription

KINDS = [Message, AsyncMessage]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime.max.replace(microsecond=999_000, tzinfo=UTC)
LAST_MS = (LAST - EPOCH) // timedelta(milliseconds=1)


def message_of(kind: type[Any] = Message, *, settling: object = None, due_ms: int = 1_001, handed_ms: int = 0) -> Any:
    delivery = (7, "orders", b"body", due_ms, 900, 2, True, 57, 1_000, b"")
    return kind(settling, delivery, handed_ms)


@given(st.integers(0, LAST_MS), st.integers(0, LAST_MS))
@example(0, LAST_MS)
def test_times_are_those_of_the_calendar(due_ms: int, handed_ms: int) -> None:
    message = message_of(due_ms=due_ms, handed_ms=handed_ms)
    assert message.due == EPOCH + timedelta(milliseconds=due_ms)
    assert message.due.tzinfo is UTC
    assert message.lateness == timedelta(milliseconds=handed_ms - due_ms)


def test_the_ends_of_months_are_those_of_the_calendar() -> None:
    for year, month in itertools.product(range(1970, 10_000), (1, 2, 3, 12)):
        first = (datetime(year, month, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
        for due_ms in (first, max(0, first - 1)):
            assert message_of(due_ms=due_ms).due == EPOCH + timedelta(milliseconds=due_ms)


def test_a_time_that_datetimes_cannot_have_is_refused() -> None:
    with pytest.raises(TooLarge, match="due"):
        assert message_of(due_ms=LAST_MS + 1).due


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_shows_itself(kind: type[Received]) -> None:
    expected = (
        f"{kind.__name__}(subject='orders', sequence=57, due=1970-01-01T00:00:01.001000+00:00, attempt=2, 4 bytes)"
    )
    assert repr(message_of(kind)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_cannot_be_changed(kind: type[Received]) -> None:
    message = message_of(kind)
    names = [name for name in dir(kind) if not name.startswith("_")]
    assert len(names) > 15
    for name in [*names, "another"]:
        with pytest.raises(AttributeError):
            setattr(message, name, None)


@pytest.mark.parametrize(("kind", "module"), [(Message, "delaymq.message"), (AsyncMessage, "delaymq._asyncio.message")])
def test_a_message_is_of_the_module_that_has_its_class(kind: type[Received], module: str) -> None:
    assert kind.__module__ == module
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert isinstance(message_of(kind), Received)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_equal_to_themselves_alone(kind: type[Received]) -> None:
    one, other = message_of(kind), message_of(kind)
    assert one == one  # noqa: PLR0124 - that is the question
    assert one != other
    assert {one, other} == {other, one}
    assert len({one, other}) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_settled_by_itself(kind: type[Received]) -> None:
    message = message_of(kind)
    assert message.attributes == {}
    copied = copy.copy(message)
    assert type(copied) is kind
    assert repr(copied) == repr(message)
    assert (copied.body, copied.attributes) == (message.body, message.attributes)
    assert copied.attributes is message.attributes
    message._settle()
    assert (message.settled, copied.settled, copy.copy(message).settled) == (True, False, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_not_sent_elsewhere(kind: type[Received]) -> None:
    for send in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle"):
            send(message_of(kind))


def test_a_message_is_acknowledged_once_in_whatever_order_it_is_listed() -> None:
    fake = FakeSubscription(6)
    messages = subscription_over(fake)
    batch = next(messages.batches())
    messages.ack([batch[1], batch[3], batch[2], batch[3], batch[1], batch[1], batch[5]])
    assert fake.acknowledged == [1, 3, 2, 5]


@pytest.mark.parametrize("found", [None, 5, "text", b""])
def test_what_is_no_message_is_not_acknowledged(found: Any) -> None:
    fake = FakeSubscription(2)
    messages = subscription_over(fake)
    with pytest.raises(WrongType, match=f"expected Message, found {type(found).__name__}") as caught:
        messages.ack([only(messages), found])
    assert (caught.value.argument, caught.value.index, fake.acknowledged) == ("messages", 1, [])


def test_a_message_of_the_other_kind_or_subscription_is_not_acknowledged() -> None:
    messages = subscription_over(FakeSubscription(2))
    with pytest.raises(WrongType, match="expected Message, found AsyncMessage"):
        messages.ack([message_of(AsyncMessage, settling=messages._core)])
    with pytest.raises(InvalidArgument, match="a message of this subscription") as caught:
        messages.ack([only(messages), message_of()])
    assert caught.value.index == 1


@pytest.mark.parametrize("delay", ["1", None, True, b"1"])
def test_a_delay_of_another_type_is_refused(delay: Any) -> None:
    message = only(subscription_over(FakeSubscription(1)))
    with pytest.raises(WrongType, match="delay: expected a timedelta or a number of seconds"):
        message.nack(delay)
    assert not message.settled


def test_a_buffer_ends_while_its_messages_live() -> None:
    """The collector of garbage does not look into a message, so none may lead back to the buffer that holds it."""

    async def ended() -> None:
        settling = Settling(cast("CoreSubscription", None), cast("EventLoop", None))
        delivery = MessageDelivery(cast("CoreSubscription", None), settling, cast("EventLoop", None))
        delivery._keep([message_of(AsyncMessage, settling=settling)])
        buffer = weakref.ref(delivery)
        del delivery, settling
        gc.collect()
        assert buffer() is None

    asyncio.run(ended())


def documented(node: ast.AST, path: str = "") -> dict[str, str]:
    """The docstrings of a module of stubs, by the names of their classes and members."""
    found = {}
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(one):
                found[f"{path}{one.name}"] = text
            found |= documented(one, f"{path}{one.name}.")
    return found


def test_help_says_what_the_reference_says() -> None:
    stub = Path(delaymq.__file__).with_name("_core_messages.pyi")
    texts = documented(ast.parse(stub.read_text("utf-8")))
    compared = 0
    for kind in (Received, *KINDS):
        for name in [kind.__name__, *(f"{kind.__name__}.{member}" for member in vars(kind))]:
            if text := texts.get(name):
                compared += 1
                member = kind if name == kind.__name__ else vars(kind)[name.partition(".")[2]]
                assert inspect.getdoc(member) == text, name
    assert compared == 21
