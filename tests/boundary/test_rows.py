"""Messages of one batch: the core reads fields of plain types, `row_of` reads all others, and both agree."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from types import FrameType
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delaymq import DelayQueue, KeyTaken, Outcome, Publish, Store
from delaymq._arguments.columns import moments_of
from delaymq._core import Request
from delaymq._verbs.storing import ColumnOptions
from delaymq.client.commands.publishing import PublishSteps
from delaymq.client.options import ClientOptions
from delaymq.errors import InvalidArgument, WrongType
from delaymq.message import PublishOptions

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
    "level": st.sampled_from([1, 18, 19, 0, -1, 2**70, True, "1"]),
    "jitter": st.sampled_from([0, -0.0, timedelta(0), timedelta(-1), timedelta(days=3_651), 2**70, True, "1"]),
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


class Ruled(Publish):
    """A message that the rules of Python read, whatever its fields: the core knows `Publish` alone."""


def test_every_field_has_values_here() -> None:
    assert FIELDS.keys() == {one.name for one in dataclasses.fields(Publish)}


def fields_of(message: Publish) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    every = [(one.name, one.default, getattr(message, one.name)) for one in dataclasses.fields(message)]
    return {name: value for name, default, value in every if value is not default}


def encoded(request: Callable[[], Request]) -> Request | tuple[str, str]:
    """A request, or the error that it raises."""
    try:
        return request()
    except Exception as error:  # noqa: BLE001 - whichever it is, both ways must raise it
        return type(error).__name__, str(error)


@settings(max_examples=1_000, deadline=None)
@given(message=messages(), with_ids=st.booleans())
def test_the_core_reads_a_message_as_the_rules_of_python_do(message: Publish, with_ids: bool) -> None:
    if message.message_id is None and (with_ids or message.deduplicate is True):
        message.message_id = "not by chance"
    direct = encoded(lambda: Request.publish_messages([message], with_ids))
    assert direct == encoded(lambda: Request.publish_messages([Ruled(**fields_of(message))], with_ids))
    fields = fields_of(message)
    subject, body = fields.pop("subject"), fields.pop("body")
    options = cast("PublishOptions", fields)
    assert direct == encoded(lambda: Request.publish(subject, body, options, with_ids))


def test_plain_messages_are_read_without_a_call_of_python(store: Store) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    plain = [
        Publish("orders", b"x"),
        Publish("orders", b"x", at=due),
        Publish("orders", b"x", delay=timedelta(hours=1), tags=("a",), attributes={"b": "c"}, message_id="m"),
        Publish("orders", b"x", delay=3_600, key="k", if_exists="replace"),
        Publish("orders", b"x", delay=3_600.5, message_id="n", deduplicate=True),
        Publish("orders", b"x", level=3),
        Publish("orders", b"x", delay=3_600, jitter=timedelta(minutes=1)),
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
    assert "row_of" in called([Publish("orders", b"x", expires=3)])


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


TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
DUES = [TOMORROW + timedelta(milliseconds=number) for number in range(3)]
DUES_MS = [(due - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) for due in DUES]


def due_of_each(store: Store, at: Any) -> list[datetime]:
    return [receipt.due for receipt in store.publish_many("orders", [b"x"] * 3, at=at)]


def test_due_times_are_a_column_of_datetimes_or_of_milliseconds(store: Store) -> None:
    numpy, pyarrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    whole = numpy.array(DUES_MS, dtype="int64")
    assert due_of_each(store, DUES[1]) == [DUES[1]] * 3
    arrow = pyarrow.array([0, *DUES_MS], pyarrow.timestamp("ms", "UTC"))
    for column in [
        DUES,
        tuple(DUES),
        [due.astimezone(timezone(timedelta(hours=5))) for due in DUES],
        whole,
        whole.astype("datetime64[ms]"),
        pyarrow.array(DUES),
        pyarrow.array(DUES_MS),
        arrow[1:],
        pyarrow.chunked_array([DUES_MS[:1], DUES_MS[1:]]),
    ]:
        assert due_of_each(store, column) == DUES


def test_datetimes_of_numpy_are_rounded_up(store: Store) -> None:
    numpy = pytest.importorskip("numpy")
    nanoseconds = numpy.array([ms * 1_000_000 for ms in DUES_MS], dtype="datetime64[ns]")
    assert due_of_each(store, nanoseconds - numpy.timedelta64(1, "ns")) == DUES
    assert due_of_each(store, nanoseconds.astype("datetime64[us]") - numpy.timedelta64(999, "us")) == DUES
    seconds = numpy.array([DUES_MS[0] // 1_000] * 3, dtype="datetime64[s]")
    assert due_of_each(store, seconds) == [DUES[0]] * 3


def test_a_column_of_milliseconds_is_read_without_a_copy() -> None:
    numpy, pyarrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    whole = numpy.array(DUES_MS, dtype="int64")
    for column in [whole, whole.view("datetime64[ms]"), pyarrow.array(whole)]:
        view = moments_of(column)
        assert isinstance(view, memoryview)
        whole[0] += 1
        assert view[0] == whole[0]


def test_a_refused_column_is_named_with_the_message(store: Store) -> None:
    numpy, pyarrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    before = store.status().accepted
    refused: list[tuple[type[WrongType | InvalidArgument], str, int | None, dict[str, Any]]] = [
        (WrongType, "at", None, {"at": numpy.array([1.5] * 3)}),
        (WrongType, "at", None, {"at": numpy.array(DUES_MS, dtype="uint64")}),
        (WrongType, "at", None, {"at": pyarrow.array(["a", "b", "c"])}),
        (WrongType, "at", None, {"at": numpy.array([1] * 3, dtype="datetime64[D]")}),
        (WrongType, "at", None, {"at": numpy.array([DUES_MS], dtype="int64")}),
        (WrongType, "at", None, {"at": numpy.ma.array(DUES_MS, mask=[0, 1, 0])}),
        (WrongType, "at", None, {"at": DUES_MS[0]}),
        (WrongType, "at", 0, {"at": pytest.importorskip("pandas").Series(DUES_MS)}),
        (InvalidArgument, "at", None, {"at": pyarrow.array(DUES_MS, pyarrow.timestamp("ms"))}),
        (InvalidArgument, "at", 1, {"at": numpy.array([1, "NaT", 1], dtype="datetime64[s]")}),
        (InvalidArgument, "at", 1, {"at": numpy.array([1, "NaT", 1], dtype="datetime64[us]")}),
        (InvalidArgument, "at", 1, {"at": numpy.array([1, "NaT", 1], dtype="datetime64[ns]")}),
        (InvalidArgument, "at", 2, {"at": numpy.array([1, 1, 2**61 + 1], dtype="datetime64[s]")}),
        (InvalidArgument, "at", None, {"at": pyarrow.array([1, None, 3])}),
        (InvalidArgument, "at", None, {"at": numpy.array(DUES_MS[:2])}),
        (InvalidArgument, "at", None, {"at": numpy.array(DUES_MS * 2)[::2]}),
        (InvalidArgument, "at", 1, {"at": numpy.array([1, -1, 2])}),
        (InvalidArgument, "at", 2, {"at": numpy.array([0, 0, "NaT"], dtype="datetime64[ms]")}),
        (WrongType, "at", 0, {"at": DUES_MS}),
        (InvalidArgument, "at", 2, {"at": [DUES[0], DUES[1], datetime(2030, 1, 1)]}),  # noqa: DTZ001
        (InvalidArgument, "at", None, {"at": DUES[:2]}),
        (InvalidArgument, "keys", None, {"keys": ["a"]}),
        (WrongType, "keys", None, {"keys": "abc"}),
        (WrongType, "keys", 1, {"keys": ["a", 5, "c"]}),
        (InvalidArgument, "if_exists", None, {"if_exists": "keep"}),
        (InvalidArgument, "if_exists", None, {"if_exists": "other", "keys": ["a", "b", "c"]}),
    ]
    for kind, argument, index, columns in refused:
        with pytest.raises(kind) as raised:
            store.publish_many("orders", [b"x"] * 3, **columns)
        assert (raised.value.argument, raised.value.index) == (argument, index), columns
    with pytest.raises(InvalidArgument, match=r"^at: expected no delays with it"):
        store.publish_many("orders", [b"x"] * 3, [1, 2, 3], at=DUES)
    with pytest.raises(InvalidArgument, match=r"^subject: expected 3, one for each body"):
        store.publish_many(["a", "b"], [b"x"] * 3)
    assert store.status().accepted == before


def test_subjects_and_keys_are_columns(store: Store) -> None:
    subjects, keys = ["a", "b", "a"], ["one", None, "two"]
    store.publish_many(subjects, [b"1", b"2", b"3"], 3_600, keys=keys)
    assert sorted(found.subject for found in store.pending()) == ["a", "a", "b"]
    assert store.cancel_key("a", "one") is Outcome.DONE
    assert store.cancel_key("b", "one") is Outcome.NOT_FOUND
    with pytest.raises(KeyTaken):
        store.publish_many("a", [b"4"], 3_600, keys=["two"])
    kept = store.publish_many("a", [b"4"], 3_600, keys=["two"], if_exists="keep")
    assert kept[0] == store.look_up_key("a", "two").receipt
    replaced = store.publish_many(["a"], [b"5"], 3_600, keys=["two"], if_exists="replace")
    assert replaced[0] == store.look_up_key("a", "two").receipt


class Shrinking(list[bytes]):
    """Bodies of which some are gone once the call has asked for their number."""

    def __len__(self) -> int:
        return super().__len__() + 1


def test_bodies_that_change_while_they_are_read_are_refused(store: Store) -> None:
    before = store.status().accepted
    with pytest.raises(InvalidArgument, match=r"^bodies: expected as many items as when the call began"):
        store.publish_many("orders", Shrinking([b"1", b"2"]), 3_600)
    assert store.status().accepted == before


@pytest.mark.parametrize("keys", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}.keys()])
def test_a_column_of_keys_is_sent_again_safely_and_one_with_gaps_is_not(keys: Any) -> None:
    def is_safe(options: ColumnOptions, *, with_ids: bool = False) -> bool:
        chosen = ClientOptions.made("delaymq://a", deduplicate=with_ids)
        _, _, retry, _ = next(PublishSteps(chosen).publish_many("orders", [b"1", b"2"], 0, options))
        return retry

    assert is_safe(ColumnOptions(keys=keys))
    gaps = ColumnOptions(keys=["a", None])
    assert not is_safe(gaps)
    assert is_safe(gaps, with_ids=True)


def test_a_program_that_names_the_protocol_has_the_same_columns(store: Store) -> None:
    queue: DelayQueue = store  # the types are checked as well
    receipt = queue.publish_many(["orders"], [b"x"], at=TOMORROW, keys=["k"], if_exists="replace")[0]
    assert store.look_up_key("orders", "k").receipt == receipt
