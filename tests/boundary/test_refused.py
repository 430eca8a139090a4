"""Bad input as one table: each argument of each public call, in both faces, and what it gets.

A row is a call with a place for one value; each value has the error that it gets, and words that tell
what to do about it. Nothing is stored by any of them.
"""

from __future__ import annotations

import array
import math
import signal
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import delaymq
from delaymq import (
    AlreadySettled,
    Closed,
    DelaymqError,
    ForeignReceipt,
    InvalidArgument,
    Locked,
    Outcome,
    Publish,
    Receipt,
    TooLarge,
    WrongType,
)
from faces import Face

BODY_BYTES_MAX = 4 * 1024 * 1024


class Timestamp(datetime):
    """Looks as pandas' does."""

    nanosecond = 999


class Timedelta(timedelta):
    """Looks as pandas' does."""

    nanoseconds = 999


class Bad(NamedTuple):
    """A value, the error that it gets, and a word of what to do."""

    value: Any
    kind: type[DelaymqError]
    advice: str = "expected"


# Texts that look like others: bidirectional marks, characters without width, letters composed in another way.
LOOK_ALIKES = [
    Bad("a\u202eb", InvalidArgument, "U+202E, a format character"),
    Bad("a\u200b", InvalidArgument, "U+200B, a format character"),
    Bad("a\u0378", InvalidArgument, "U+0378, an unassigned character"),
    Bad("cafe\u0301", InvalidArgument, "another normalization form"),
]
NAMES = [
    *LOOK_ALIKES,
    Bad("", InvalidArgument, "1 to 100 characters"),
    Bad("a b", InvalidArgument, "white space"),
    Bad("%RETRY%a%g", InvalidArgument),
    Bad("x" * 101, InvalidArgument),
    Bad("\ud800", InvalidArgument, "UTF-8"),
    *(Bad(value, WrongType, "expected str") for value in (b"a", None, 5, True, 1.5)),
]
BODIES = [
    Bad("text", WrongType, ".encode()"),
    *(Bad(value, WrongType, "bytes-like") for value in (5, None, True, 1.5, [1], object())),
    Bad(bytes(BODY_BYTES_MAX + 1), TooLarge, "limit"),
]
# What is wrong for every duration.
DURATIONS = [
    *(Bad(value, InvalidArgument) for value in (-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, -math.inf)),
    *(Bad(value, WrongType, "seconds") for value in (True, "5", b"5", 5j, Decimal(5), [1], datetime.now(UTC))),
    Bad(Timedelta(seconds=1), WrongType, ".to_pytimedelta()"),
    *(Bad(value, TooLarge, "limit") for value in (1e300, 1e306, 1.7e308, 10**400, 10**5000)),
    *(Bad(value, InvalidArgument, "zero or more") for value in (-1e306, -(10**400), -(10**5000), timedelta.min)),
]
FAR = [Bad(value, InvalidArgument, "at most") for value in (timedelta(days=36_500), timedelta.max, 1e15)]
DELAYS = [*DURATIONS, *FAR]
# Text and lists are sequences, of which each item is a delay.
SCALARS = [bad for bad in DURATIONS if isinstance(bad.value, int | float | timedelta) and bad.value is not True]
ENDS = [Bad(value, InvalidArgument, "before the year 10000") for value in (timedelta.max, 1e15, 2**50)]
TIMES = [
    Bad(datetime(2030, 1, 1), InvalidArgument, "tzinfo"),  # noqa: DTZ001 - it is refused for that
    Bad(datetime(1900, 1, 1, tzinfo=UTC), InvalidArgument, "after 1970"),
    Bad(datetime(2500, 1, 1, tzinfo=UTC), InvalidArgument, "at most"),
    Bad(Timestamp(2030, 1, 1, tzinfo=UTC), WrongType, ".to_pydatetime()"),
    *(Bad(value, WrongType, "time zone") for value in (1_800_000_000, 1.5, False, "2030-01-01", date(2030, 1, 1))),
]
NEAR_TIMES = [bad for bad in TIMES if bad.advice != "at most"]
EXPIRIES = [
    *(bad for bad in DURATIONS if not isinstance(bad.value, datetime)),
    *(bad for bad in FAR if bad.value != timedelta(days=36_500)),  # that is as long as anybody wishes
    *(bad for bad in TIMES if isinstance(bad.value, datetime) and bad.advice != "at most"),
    Bad(0, InvalidArgument, "after the due time"),
    Bad(datetime(2000, 1, 1, tzinfo=UTC), InvalidArgument, "after the due time"),
]
LEVELS = [
    *(Bad(value, InvalidArgument, "1 to 18") for value in (0, 19, -1, 10**5000)),
    *(Bad(value, WrongType, "int") for value in (True, "1", 1.0, math.nan)),
]
TAGS = [
    Bad("one", WrongType, 'tags=("one",)'),
    Bad(b"one", WrongType),
    Bad(5, WrongType, "tuple or list"),
    Bad({"one"}, WrongType),
    Bad([5], WrongType, "expected str"),
    Bad([""], InvalidArgument, "1 to 255"),
    Bad(["x" * 256], InvalidArgument, "1 to 255"),
    Bad(["x"] * 11, InvalidArgument, "at most 10"),
    *(Bad([bad.value], bad.kind, bad.advice) for bad in LOOK_ALIKES),
]
ATTRIBUTES = [
    *(Bad(value, WrongType, "mapping") for value in (5, "k=v", ["k"], [("k", "v")], True)),
    *(Bad(value, WrongType, "expected str") for value in ({"k": 5}, {"k": b"v"}, {5: "v"}, {"k": None})),
    Bad({"": "v"}, InvalidArgument, "1 to 255"),
    Bad({str(number): "" for number in range(1001)}, InvalidArgument, "at most 1000"),
    Bad({"k": "v" * (32 << 10)}, TooLarge, "limit"),
    Bad({"k": "\ud800"}, InvalidArgument, "UTF-8"),
]
IDS = [
    *LOOK_ALIKES,
    *(Bad(value, WrongType, "expected str") for value in (5, b"id", True, ["id"])),
    *(Bad(value, InvalidArgument, "1 to 100 characters") for value in ("", "x" * 101, "a b", "a/b", "100%")),
]
RECEIPTS = [
    Bad("dmq1-" + "A" * 64, WrongType, "Receipt.parse"),
    *(Bad(value, WrongType, "expected Receipt") for value in (5, None, b"dmq1-", True)),
]
STARTS = [
    Bad("middle", InvalidArgument, '"earliest", "unfinished", "latest", a datetime'),
    Bad(None, WrongType),
    Bad(0, WrongType),
]
IN_FLIGHT = [
    *(Bad(value, InvalidArgument, "1 to 65535") for value in (0, 65_536)),
    *(Bad(value, InvalidArgument, "in range") for value in (-1, 2**40)),
    *(Bad(value, WrongType, "int") for value in ("5", 5.0, None, True, math.nan)),
]
COUNTS = [
    *(Bad(value, InvalidArgument, "1 to 10000") for value in (0, -1, 10_001, 10**5000)),
    *(Bad(value, WrongType, "int") for value in (True, "5", 5.0, None, math.nan)),
]
LIMITS = [
    Bad(None, WrongType, "int"),
    *(Bad(value, WrongType, "int") for value in (True, "5", 5.0, math.nan)),
    *(Bad(value, InvalidArgument, "at least 1") for value in (0, -1, -(10**5000))),
]
HEAPS = [
    *(Bad(value, WrongType, "an iterable of Receipt") for value in (5, None, True, "dmq1-", b"dmq1-")),
]
KEY_HEAPS = [Bad(bad.value, WrongType, "an iterable of str") for bad in HEAPS]
MANY = [
    *(Bad(value, WrongType, "an iterable of") for value in (5, None, True, 1.5, "text", b"text", object())),
    *(Bad([value], WrongType, "messages[0]: expected") for value in (5, None, "text", b"text", object())),
]
REASONS = [
    *(Bad(value, WrongType, "expected str") for value in (5, None, b"x", True)),
    Bad("x" * 1025, TooLarge, "limit"),
]
PAIRS = [
    ("delay", {"delay": 1, "at": datetime.now(UTC)}),
    ("delay", {"delay": 1, "level": 1}),
    ("at", {"at": datetime.now(UTC), "level": 1}),
    ("all", {"delay": 1, "at": datetime.now(UTC), "level": 1}),
]


def refused(face: Face, bad: Bad, argument: str | None, call: Callable[[], Any]) -> DelaymqError:
    with pytest.raises(DelaymqError) as caught:
        face.call(call)
    error = caught.value
    assert type(error) is bad.kind, repr(error)
    assert (TypeError if bad.kind is WrongType else ValueError) in bad.kind.__mro__
    assert error.argument == argument, repr(error)
    assert error.found is not None
    assert bad.advice in str(error), str(error)
    return error


Call = Callable[[Face, Any], Any]


def published(argument: str) -> list[tuple[str, Call]]:
    """The three ways to give an argument of `publish`."""

    def fields(value: Any) -> dict[str, Any]:
        return {"subject": "a", "body": b"", argument: value}

    return [
        ("publish", lambda face, value: face.store.publish(**fields(value))),
        ("publish_many", lambda face, value: face.store.publish_many([Publish("a", b""), Publish(**fields(value))])),
    ]


TABLE: list[tuple[str, str, list[Bad], Call]] = [
    (f"{call}({argument})", argument, values, made)
    for argument, values in {
        "subject": NAMES,
        "body": BODIES,
        "delay": DELAYS,
        "at": TIMES,
        "level": LEVELS,
        "tags": TAGS,
        "attributes": ATTRIBUTES,
        "message_id": IDS,
        "jitter": DELAYS,
        "expires": EXPIRIES,
    }.items()
    for call, made in published(argument)
    if not (argument in ("delay", "at", "level", "attributes", "message_id") and None in [bad.value for bad in values])
]
TABLE += [
    ("publish_many(bodies)", "body", BODIES, lambda face, value: face.store.publish_many("a", [b"", value])),
    ("publish_many(delays)", "delays", DURATIONS, lambda face, value: face.store.publish_many("a", [b""], [value])),
    ("publish_many(delay for all)", "delays", SCALARS, lambda face, value: face.store.publish_many("a", [b""], value)),
    ("publish_many(jitter)", "jitter", DELAYS, lambda face, value: face.store.publish_many("a", [b""], jitter=value)),
    (
        "publish_many(delays with jitter)",
        "delays",
        DURATIONS,
        lambda face, value: face.store.publish_many("a", [b""], [value], jitter=1),
    ),
    ("cancel", "receipt", RECEIPTS, lambda face, value: face.store.cancel(value)),
    ("cancel_many", "receipt", RECEIPTS, lambda face, value: face.store.cancel_many([value])),
    ("cancel_many(receipts)", "receipts", HEAPS, lambda face, value: face.store.cancel_many(value)),
    ("move", "receipt", RECEIPTS, lambda face, value: face.store.move(value, delay=5)),
    ("move_many", "receipt", RECEIPTS, lambda face, value: face.store.move_many([value], delay=5)),
    ("move_many(receipts)", "receipts", HEAPS, lambda face, value: face.store.move_many(value, delay=5)),
    # The time is looked at first; one that is too far ahead only where the receipt is one of the store.
    ("move(delay)", "delay", DURATIONS, lambda face, value: face.store.move(None, delay=value)),
    ("move_many(delay)", "delay", DURATIONS, lambda face, value: face.store.move_many([None], delay=[value])),
    ("move(at)", "at", NEAR_TIMES, lambda face, value: face.store.move(None, at=value)),
    ("cancel_keys(subject)", "subject", NAMES, lambda face, value: face.store.cancel_keys(value, ["k"])),
    ("cancel_keys", "key", NAMES, lambda face, value: face.store.cancel_keys("a", ["k", value])),
    ("cancel_keys(keys)", "keys", KEY_HEAPS, lambda face, value: face.store.cancel_keys("a", value)),
    ("move_keys(subject)", "subject", NAMES, lambda face, value: face.store.move_keys(value, ["k"], delay=5)),
    ("move_keys", "key", NAMES, lambda face, value: face.store.move_keys("a", ["k", value], delay=5)),
    ("move_keys(delay)", "delay", DURATIONS, lambda face, value: face.store.move_keys("a", ["k"], delay=[value])),
    ("subscribe(subject)", "subject", NAMES, lambda face, value: face.store.subscribe(value, group="g")),
    ("subscribe(group)", "group", NAMES, lambda face, value: face.store.subscribe("a", group=value)),
    ("subscribe(start)", "start", STARTS, lambda face, value: face.store.subscribe("a", group="g", start=value)),
    (
        "subscribe(in_flight_max)",
        "in_flight_max",
        IN_FLIGHT,
        lambda face, value: face.store.subscribe("a", group="g", in_flight_max=value),
    ),
    ("get(timeout)", "timeout", DURATIONS, lambda face, value: face.messages.get(value)),
    ("flush(timeout)", "timeout", DURATIONS, lambda face, value: face.messages.flush(value)),
    ("batches(max_messages)", "max_messages", COUNTS, lambda face, value: face.messages.batches(value)),
    ("batches(wait)", "wait", DURATIONS, lambda face, value: face.messages.batches(5, value)),
    ("expire(older_than)", "older_than", DURATIONS, lambda face, value: face.store.expire("consumed", value)),
    ("expire(subject)", "subject", NAMES, lambda face, value: face.store.expire(value, 1)),
    ("start_group(subject)", "subject", NAMES, lambda face, value: face.store.start_group(value, "g")),
    ("start_group(group)", "group", NAMES, lambda face, value: face.store.start_group("a", value)),
    ("start_group(start)", "start", STARTS, lambda face, value: face.store.start_group("a", "g", value)),
    ("reset_group(subject)", "subject", NAMES, lambda face, value: face.store.reset_group(value, "g", "latest")),
    ("reset_group(group)", "group", NAMES, lambda face, value: face.store.reset_group("a", value, "latest")),
    ("reset_group(start)", "start", STARTS, lambda face, value: face.store.reset_group("a", "g", value)),
    ("remove_group(subject)", "subject", NAMES, lambda face, value: face.store.remove_group(value, "g")),
    ("remove_group(group)", "group", NAMES, lambda face, value: face.store.remove_group("a", value)),
    ("dead_letters(subject)", "subject", NAMES, lambda face, value: face.store.dead_letters(value, "g")),
    ("dead_letters(group)", "group", NAMES, lambda face, value: face.store.dead_letters("a", value)),
    ("dead_letters(limit)", "limit", LIMITS, lambda face, value: face.store.dead_letters("a", "g", value)),
    ("redrive(subject)", "subject", NAMES, lambda face, value: face.store.redrive(value, "g")),
    ("redrive(group)", "group", NAMES, lambda face, value: face.store.redrive("a", value)),
    ("redrive(limit)", "limit", LIMITS[1:], lambda face, value: face.store.redrive("a", "g", value)),
    ("nack(delay) of many", "delay", DURATIONS, lambda face, value: face.messages.nack([], value)),
    ("dead_letter(reason) of many", "reason", REASONS, lambda face, value: face.messages.dead_letter([], value)),
    ("ack of many", "messages", MANY, lambda face, value: face.messages.ack(value)),
    ("nack of many", "messages", MANY, lambda face, value: face.messages.nack(value)),
    ("dead_letter of many", "messages", MANY, lambda face, value: face.messages.dead_letter(value, "why")),
]


@pytest.mark.parametrize(("argument", "values", "call"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_argument_of_each_call(face: Face, argument: str, values: list[Bad], call: Call) -> None:
    before = face.call(face.store.status)
    for bad in values:
        error = refused(face, bad, argument, lambda bad=bad: call(face, bad.value))  # type: ignore[misc]
        assert error.index in (None, 0, 1)
    after = face.call(face.store.status)
    assert (after.pending, after.ready, after.accepted) == (before.pending, before.ready, before.accepted)


MARKS = [
    *(Bad(value, InvalidArgument) for value in (-1, 2**64)),
    *(Bad(value, WrongType, "int") for value in (1.5, "1", None, True)),
]
BY_SUBJECT = [
    *(Bad(value, WrongType, "mapping") for value in (5, "a", [("a", 1)], True)),
    Bad({5: 1}, WrongType, "str"),
    *(Bad({"a": bad.value}, bad.kind, bad.advice) for bad in DURATIONS),
    *(Bad({bad.value: 1}, bad.kind, bad.advice) for bad in NAMES if isinstance(bad.value, str)),
]
OPTIONS: dict[str, list[Bad]] = {
    "path": [Bad(value, WrongType, "a path") for value in (5, None, True, 1.5)],
    "durability": [Bad("paper", InvalidArgument, '"disk" or "os"'), Bad(None, WrongType), Bad(True, WrongType)],
    "create": [Bad(value, WrongType, "bool") for value in (None, 1, "yes")],
    "segment_bytes": [
        *(Bad(value, InvalidArgument) for value in (0, -1, 100_001, 2**40)),
        *(Bad(value, WrongType, "int") for value in (1.5, "1", None, True)),
    ],
    "warn_free_bytes": MARKS,
    "refuse_free_bytes": MARKS,
    "delay_max": DURATIONS,
    "keep_finished": DURATIONS,
    "keep_finished_of": BY_SUBJECT,
    "expire": BY_SUBJECT,
    "progress": [Bad(value, WrongType, "callable") for value in (5, "print", True)],
}


UNKNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "publish": lambda store, given: store.publish("orders", b"x", **given),
    "publish, beside known ones": lambda store, given: store.publish("orders", b"x", delay=1, key="k", **given),
    "publish_many": lambda store, given: store.publish_many("orders", [b"x"], 1, **given),
    "recur": lambda store, given: store.recur("orders", b"x", name="n", every=60, **given),
    "subscribe": lambda store, given: store.subscribe("orders", group="g", **given),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_option_that_does_not_exist(face: Face, name: str) -> None:
    before = face.call(face.store.status).accepted
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'dely'"):
        face.call(lambda: UNKNOWN[name](face.store, {"dely": 5}))
    assert face.call(face.store.status).accepted == before


def test_a_series_without_a_name(face: Face) -> None:
    with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: 'name'"):
        face.call(lambda: face.store.recur("orders", b"x", every=60))


@pytest.mark.parametrize("option", ["dely", "path"])
def test_an_option_that_opening_does_not_have(face: Face, tmp_path: Path, option: str) -> None:
    with pytest.raises(TypeError, match=f"'{option}'"):
        face.call(lambda: face.opening(tmp_path / "other", **{option: 5}))


@pytest.mark.parametrize("face", Face.EMBEDDED, indirect=True)
def test_a_pin_for_no_duration(face: Face) -> None:
    for bad in [*DURATIONS, *ENDS]:
        refused(face, bad, "duration", lambda bad=bad: face.store.pin(bad.value))  # type: ignore[misc]


@pytest.mark.parametrize("face", Face.EMBEDDED, indirect=True)
@pytest.mark.parametrize("option", OPTIONS)
def test_each_argument_of_an_open(face: Face, tmp_path: Path, option: str) -> None:
    for bad in OPTIONS[option]:
        chosen: dict[str, Any] = {} if option == "path" else {option: bad.value}
        path = bad.value if option == "path" else tmp_path / "other"
        refused(face, bad, option, lambda path=path, chosen=chosen: face.opening(path, **chosen))  # type: ignore[misc]
    assert not (tmp_path / "other" / "identity").exists()


@pytest.mark.parametrize(("_", "given"), PAIRS)
def test_two_ways_to_say_when(face: Face, _: str, given: dict[str, Any]) -> None:
    bad = Bad(given, InvalidArgument, "one of delay, at and level")
    second = list(given)[1]
    refused(face, bad, second, lambda: face.store.publish("a", b"", **given))
    refused(face, bad, second, lambda: face.store.publish_many([Publish("a", b"", **given)]))


@pytest.mark.parametrize("bad", DELAYS)
def test_a_delay_that_is_refused_settles_nothing(face: Face, bad: Bad) -> None:
    message = face.one()
    refused(face, bad, "delay", lambda: message.nack(bad.value))
    assert not message.settled
    face.call(message.ack)


def test_a_reason_that_is_refused_settles_nothing(face: Face) -> None:
    message = face.one()
    for bad in REASONS:
        refused(face, bad, "reason", lambda bad=bad: message.dead_letter(bad.value))  # type: ignore[misc]
        refused(face, bad, "reason", lambda bad=bad: face.messages.dead_letter([message], bad.value))  # type: ignore[misc]
    assert not message.settled
    face.call(message.ack)


def test_a_receipt_that_is_malformed(face: Face) -> None:
    for text in ("", "dmq1-", "dmq2-" + "A" * 64, "dmq1-" + "A" * 63, "dmq1-" + "!" * 64):
        refused(face, Bad(text, InvalidArgument), "receipt", lambda text=text: Receipt.parse(text))  # type: ignore[misc]
    receipt = str(face.call(lambda: face.store.publish("a", b"", delay=3600)))
    forged = Receipt.parse(receipt[:-1] + ("A" if receipt[-1] != "A" else "B"))
    refused(face, Bad(forged, InvalidArgument, "this store gave out"), "receipt", lambda: face.store.cancel(forged))


def test_a_receipt_of_another_store(face: Face, tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "other", durability="os") as other:
        foreign = other.publish("a", b"", delay=3600)
        own = face.call(lambda: face.store.publish("a", b"", delay=3600))
        bad = Bad(foreign, ForeignReceipt, "cancel it in the store it is of")
        assert refused(face, bad, "receipt", lambda: face.store.cancel(foreign)).index == 0
        assert refused(face, bad, "receipt", lambda: face.store.cancel_many([own, foreign])).index == 1
        alone = Bad(own, WrongType, "an iterable of Receipt")
        refused(face, alone, "receipts", lambda: face.store.cancel_many(own))
        # Neither was cancelled.
        assert other.cancel(foreign) is Outcome.DONE
        assert face.call(face.store.status).pending == 1
        assert face.call(lambda: face.store.cancel(own)) is Outcome.DONE


def test_a_message_is_settled_once(face: Face) -> None:
    for first in ("ack", "nack", "dead_letter"):
        message = face.one()
        reason = ("no such order",) if first == "dead_letter" else ()
        face.call(lambda message=message, first=first, reason=reason: getattr(message, first)(*reason))  # type: ignore[misc]
        for second in (message.ack, message.nack, lambda message=message: message.dead_letter("again")):
            with pytest.raises(AlreadySettled, match="settle each message once"):
                face.call(second)
        face.call(lambda message=message: face.messages.ack([message]))  # type: ignore[misc]


def test_a_message_that_went_back_cannot_be_settled(face: Face) -> None:
    message = face.one()
    face.call(face.messages.close)
    for settle in (message.ack, message.nack, lambda: face.messages.ack([message])):
        with pytest.raises(Closed, match="comes again"):
            face.call(settle)
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g"))
    again = face.call(lambda: face.messages.get(5))
    assert (again.sequence, again.attempt) == (message.sequence, 2)
    face.call(again.ack)


def test_a_closed_store(face: Face) -> None:
    message = face.one()
    receipt = message.receipt
    face.call(face.store.close)
    store, messages = face.store, face.messages

    def first_batch() -> Any:
        batches = messages.batches(1)
        return anext(batches) if face.runner else next(batches)

    calls: list[Callable[[], Any]] = [
        store.groups,
        store.subjects,
        lambda: store.start_group("a", "g"),
        lambda: store.reset_group("a", "g", "latest"),
        lambda: store.remove_group("a", "g"),
        lambda: store.dead_letters("a", "g"),
        lambda: store.redrive("a", "g"),
        lambda: store.expire("consumed", 1),
        lambda: store.cancel_many([receipt]),
        lambda: messages.get(0),
        messages.get,
        lambda: messages.flush(1),
        first_batch,
        lambda: message.dead_letter("x"),
        *(
            lambda many=many, settle=settle: settle(many)
            for many in ([], [message])
            for settle in (messages.ack, messages.nack, lambda many: messages.dead_letter(many, "x"))
        ),
        lambda: face.store.publish("a", b""),
        lambda: face.store.publish_many("a", [b""]),
        lambda: face.store.cancel(receipt),
        lambda: face.store.subscribe("a", group="g"),
        *(() if face.is_remote else (store.checkpoint, lambda: store.pin(1))),
        message.ack,
        message.nack,
    ]
    for call in calls:
        with pytest.raises(Closed, match="closed"):
            face.call(call)
    face.call(face.store.close)


@pytest.mark.parametrize("face", Face.EMBEDDED, indirect=True)
def test_a_second_open_in_this_process(face: Face) -> None:
    with pytest.raises(Locked, match="this process has it open already; share that store, or close it first"):
        face.call(lambda: face.opening(face.folder))


def test_a_batch_that_is_too_long_or_too_large(face: Face) -> None:
    bad = Bad(None, TooLarge, "limit")
    refused(face, bad, "messages", lambda: face.store.publish_many("a", [b""] * 10_001, 3600))
    refused(face, bad, "messages", lambda: face.store.publish_many([Publish("a", b"", 3600)] * 10_001))
    refused(face, bad, "messages", lambda: face.store.publish_many("a", [bytes(1 << 20)] * 9, 3600))


def test_a_batch_of_another_shape(face: Face) -> None:
    wrong, uneven = Bad(None, WrongType), Bad(None, InvalidArgument)
    many = face.store.publish_many
    refused(face, uneven, "delays", lambda: many("a", [b"", b""], [1]))
    for argument, call in {
        "bodies": lambda: many("a", 5),
        "bodies again": lambda: many("a", iter([b""])),
        "bodies missing": lambda: many("a"),
        "body": lambda: many("a", b"ab"),
        "messages": lambda: many([b"a"]),
        "messages as bytes": lambda: many(b"a"),
        "messages as a number": lambda: many(5),
        "subject": lambda: many(5, [b""]),
    }.items():
        refused(face, wrong, argument.split()[0], call)


@pytest.mark.parametrize(
    "body", [b"x", bytearray(b"x"), memoryview(b"x"), array.array("I", [1, 2]), memoryview(b"abcdef")[::2]]
)
def test_everything_bytes_like_is_taken(face: Face, body: Any) -> None:
    face.call(lambda: face.store.publish("consumed", body))
    assert face.call(lambda: face.messages.get(5)).body == memoryview(body).tobytes()


def test_the_longest_durations_are_taken(face: Face) -> None:
    for longest in (timedelta.max, 1e12):
        message = face.one()
        face.call(message.ack)
        face.call(lambda longest=longest: face.messages.flush(longest))  # type: ignore[misc]
        assert face.call(lambda longest=longest: face.store.expire("consumed", longest)) == 0  # type: ignore[misc]
        face.call(lambda: face.store.publish("consumed", b"waited for", delay=0.05))
        found = face.call(lambda longest=longest: face.messages.get(longest))  # type: ignore[misc]
        assert found.body == b"waited for"
        face.call(found.ack)


@pytest.mark.parametrize("face", Face.EMBEDDED, indirect=True)
def test_an_open_with_the_longest_durations(face: Face, tmp_path: Path) -> None:
    far = timedelta.max
    by_subject = {"a": far, "none": far}
    other = face.call(
        lambda: face.opening(tmp_path / "other", keep_finished=far, keep_finished_of=by_subject, expire=by_subject)
    )
    face.call(lambda: other.publish("a", b"", delay=3600))
    face.call(other.checkpoint)
    face.call(other.close)


def test_inspecting_with_what_no_open_takes(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store"):
        pass
    for argument in ("keep_finished", "keep_finished_of"):
        for bad in OPTIONS[argument]:
            with pytest.raises(bad.kind) as caught:
                delaymq.inspect(tmp_path / "store", **{argument: bad.value})
            assert caught.value.argument == argument


def test_inspecting_what_is_no_path() -> None:
    for bad in OPTIONS["path"]:
        with pytest.raises(WrongType, match="a path") as caught:
            delaymq.inspect(bad.value)
        assert caught.value.argument == "path"


def test_signals_that_are_none(face: Face) -> None:
    for value in (5, None, "SIGTERM", b"x", [5], [signal.SIGTERM, "SIGINT"]):
        with pytest.raises(WrongType) as caught, delaymq.stop_on_signals(face.messages, signals=value):  # type: ignore[arg-type]
            pass
        assert caught.value.argument == "signals"
    before = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGKILL, signal.SIGSTOP):
        chosen = (signal.SIGTERM, number)
        with pytest.raises(InvalidArgument, match=number.name), delaymq.stop_on_signals(face.messages, signals=chosen):
            pass
    assert signal.getsignal(signal.SIGTERM) == before
