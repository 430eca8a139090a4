"""Messages of one batch: the core reads fields of plain types, `row_of` reads all others, and both agree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delaymq import Publish, Store
from delaymq._arguments.publishes import row_of
from delaymq._core import Caller, Request
from delaymq.errors import InvalidArgument, WrongType

FRAME_BYTES_MAX = 1 << 24
MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))  # noqa: DTZ001
ZONES = st.sampled_from([UTC, UTC, UTC, timezone(timedelta(hours=-3)), ZoneInfo("Africa/Cairo"), None])

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "subject": st.sampled_from(["orders", "orders", "a b", "", "\ud800", 5]),
    "body": st.sampled_from([b"x", bytearray(b"y"), memoryview(b"z"), "text", None]),
    "delay": st.one_of(
        st.sampled_from([0, 3, 2.007, -1, -0.0, -0.5, float("nan"), float("inf"), 2**63, 2**70, True, "1"]),
        st.floats(),
        st.timedeltas(),
    ),
    "at": st.one_of(
        st.builds(lambda moment, zone: moment.replace(tzinfo=zone), MOMENTS, ZONES),
        st.sampled_from([date(2030, 1, 1), 5, "2030-01-01"]),
    ),
    "level": st.sampled_from([1, 18, 19, True]),
    "tags": st.sampled_from([(), [], ("a", "b"), ["c"], "d", None, ("",), 5]),
    "attributes": st.sampled_from([{}, {"a": "b"}, {"a": 5}, 5]),
    "message_id": st.sampled_from(["m", "", "\ud800", 5]),
    "key": st.sampled_from(["k", "", "\ud800", 5]),
    "if_exists": st.sampled_from(["replace", "keep", "error", "other", 5]),
    "deduplicate": st.sampled_from([True, 1, None]),
    "expires": st.sampled_from([timedelta(hours=1), 5, datetime(2030, 1, 1, tzinfo=UTC), -1]),
    "on_expiry": st.sampled_from(["drop", "dead_letter", "other"]),
}


def messages() -> st.SearchStrategy[Publish]:
    """Messages with a few fields of any type; the others are plain, or left out."""
    base: dict[str, st.SearchStrategy[Any]] = {"subject": st.just("orders"), "body": st.just(b"x")}
    names = st.lists(st.sampled_from(sorted(FIELDS)), max_size=4, unique=True)
    chosen = names.flatmap(lambda names: st.fixed_dictionaries(base | {name: FIELDS[name] for name in names}))
    return chosen.map(lambda fields: Publish(**fields))


def encoded(request: Callable[[], Request]) -> bytes | tuple[str, str]:
    """The frame of a request, or the error that it raises."""
    try:
        made = request()
    except Exception as error:  # noqa: BLE001 - whichever it is, both ways must raise it
        return type(error).__name__, str(error)
    caller = Caller()
    assert caller.ask(made) is not None
    return caller.output(FRAME_BYTES_MAX)


@settings(max_examples=1_000, deadline=None)
@given(message=messages(), with_ids=st.booleans())
def test_the_core_reads_a_message_as_the_rules_of_python_do(message: Publish, with_ids: bool) -> None:
    if message.message_id is None and (with_ids or message.deduplicate is True):
        message.message_id = "not by chance"
    direct = encoded(lambda: Request.publish_messages([message], with_ids))
    assert direct == encoded(lambda: Request.publish_rows([row_of(0, message, with_ids)]))


def test_plain_messages_are_read_without_a_call_of_python(store: Store) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    plain = [
        Publish("orders", b"x"),
        Publish("orders", b"x", at=due),
        Publish("orders", b"x", delay=timedelta(hours=1), tags=("a",), attributes={"b": "c"}, message_id="m"),
        Publish("orders", b"x", delay=3_600, key="k", if_exists="replace"),
        Publish("orders", b"x", delay=3_600.5, message_id="n", deduplicate=True),
    ]
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    def called(batch: list[Publish]) -> list[str]:
        calls.clear()
        sys.setprofile(note)
        try:
            store.publish_many(batch)
        finally:
            sys.setprofile(None)
        return list(calls)

    called(plain)  # the first call imports what the core compares types with
    assert "row_of" not in called(plain)
    assert "row_of" in called([Publish("orders", b"x", level=3)])


def test_an_error_names_the_first_message_that_is_refused(store: Store) -> None:
    before = store.status().accepted
    good = Publish("orders", b"x", delay=3_600)
    for bad, error in [
        (Publish("orders", "text"), WrongType),  # type: ignore[arg-type]
        (Publish("orders", b"x", at=datetime(2030, 1, 1)), InvalidArgument),  # noqa: DTZ001
        ("orders", WrongType),
    ]:
        later = Publish("orders", b"x", delay=-1)
        with pytest.raises(error) as raised:
            store.publish_many([good] * 7 + [bad, later])  # type: ignore[list-item]
        assert raised.value.index == 7
    assert store.status().accepted == before


def test_each_message_without_an_id_has_its_own_new_one(store: Store) -> None:
    receipts = store.publish_many([Publish("orders", b"x", deduplicate=True, delay=3_600) for _ in range(100)])
    assert len(set(receipts)) == 100
