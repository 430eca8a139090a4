"""Whatever is refused names its argument, and leaves the store as it was."""

from __future__ import annotations

import array
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import DelaymqError, InvalidArgument, Publish, Store, TooLarge, WrongType

BODY_BYTES_MAX = 4 * 1024 * 1024
LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
FAR = datetime(2500, 1, 1, tzinfo=UTC)

BAD_SUBJECTS: list[tuple[Any, type[DelaymqError]]] = [
    ("", InvalidArgument),
    ("a b", InvalidArgument),
    ("a/b", InvalidArgument),
    ("%RETRY%a%g", InvalidArgument),
    ("tab\t", InvalidArgument),
    ("nul\0", InvalidArgument),
    ("x" * 101, InvalidArgument),
    ("\ud800", InvalidArgument),
    (b"bytes", WrongType),
    (None, WrongType),
    (5, WrongType),
]
BAD_BODIES: list[tuple[Any, type[DelaymqError]]] = [
    ("text", WrongType),
    (5, WrongType),
    (None, WrongType),
    ([1, 2], WrongType),
    (bytes(BODY_BYTES_MAX + 1), TooLarge),
    (bytearray(BODY_BYTES_MAX + 1), TooLarge),
]
BAD_DELAYS: list[tuple[Any, type[DelaymqError]]] = [
    (-1, InvalidArgument),
    (-0.001, InvalidArgument),
    (timedelta(seconds=-1), InvalidArgument),
    (math.nan, InvalidArgument),
    (math.inf, InvalidArgument),
    (-math.inf, InvalidArgument),
    (timedelta(days=365 * 100), InvalidArgument),
    (1e15, InvalidArgument),
    (1e300, TooLarge),
    (True, WrongType),
    ("5", WrongType),
    (b"5", WrongType),
    (5j, WrongType),
]
BAD_TIMES: list[tuple[Any, type[DelaymqError]]] = [
    (datetime(2030, 1, 1), InvalidArgument),  # noqa: DTZ001 - it is refused for that
    (LONG_AGO, InvalidArgument),
    (FAR, InvalidArgument),
    (1_800_000_000, WrongType),
    (1_800_000_000.5, WrongType),
    (False, WrongType),
    ("2030-01-01", WrongType),
]


@pytest.fixture(autouse=True)
def nothing_is_stored(store: Store) -> Iterator[None]:
    before = store.status()
    yield
    after = store.status()
    assert (after.pending, after.ready) == (before.pending, before.ready)
    assert after.accepted == before.accepted


def refused(kind: type[DelaymqError], argument: str, call: Callable[[], object]) -> DelaymqError:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert caught.value.argument == argument
    assert caught.value.found is not None
    return caught.value


@pytest.mark.parametrize(("subject", "kind"), BAD_SUBJECTS)
def test_a_bad_subject(store: Store, subject: Any, kind: type[DelaymqError]) -> None:
    refused(kind, "subject", lambda: store.publish(subject, b""))
    error = refused(kind, "subject", lambda: store.publish_many([Publish("good", b""), Publish(subject, b"")]))
    assert error.index == 1


@pytest.mark.parametrize(("body", "kind"), BAD_BODIES)
def test_a_bad_body(store: Store, body: Any, kind: type[DelaymqError]) -> None:
    refused(kind, "body", lambda: store.publish("a", body))
    assert refused(kind, "body", lambda: store.publish_many("a", [b"", b"", body])).index == 2
    assert refused(kind, "body", lambda: store.publish_many([Publish("a", body)])).index == 0


@pytest.mark.parametrize(("delay", "kind"), BAD_DELAYS)
def test_a_bad_delay(store: Store, delay: Any, kind: type[DelaymqError]) -> None:
    refused(kind, "delay", lambda: store.publish("a", b"", delay=delay))
    assert refused(kind, "delay", lambda: store.publish_many([Publish("a", b"", delay=delay)])).index == 0
    with pytest.raises(kind) as caught:
        store.publish_many("a", [b"", b""], [0, delay])
    assert caught.value.argument in ("delay", "delays")
    assert caught.value.index == 1


@pytest.mark.parametrize(("at", "kind"), BAD_TIMES)
def test_a_bad_time(store: Store, at: Any, kind: type[DelaymqError]) -> None:
    refused(kind, "at", lambda: store.publish("a", b"", at=at))
    assert refused(kind, "at", lambda: store.publish_many([Publish("a", b""), Publish("a", b"", at=at)])).index == 1


def test_delay_and_time_together(store: Store) -> None:
    refused(InvalidArgument, "at", lambda: store.publish("a", b"", delay=1, at=datetime.now(UTC)))
    refused(InvalidArgument, "at", lambda: store.publish_many([Publish("a", b"", 1, datetime.now(UTC))]))


def test_a_batch_that_is_too_long(store: Store) -> None:
    error = refused(TooLarge, "messages", lambda: store.publish_many("a", [b""] * 10_001, 3600))
    assert isinstance(error, TooLarge)
    assert error.limit == 10_000
    refused(TooLarge, "messages", lambda: store.publish_many([Publish("a", b"", 3600)] * 10_001))


def test_a_batch_that_is_too_large(folder: Path) -> None:
    with delaymq.open(folder.with_name("large"), durability="os") as store:
        before = store.status()
        refused(TooLarge, "messages", lambda: store.publish_many("a", [bytes(BODY_BYTES_MAX)] * 9, 3600))
        assert store.status().accepted == before.accepted


def test_a_batch_of_another_shape(store: Store) -> None:
    anything: Any = store
    refused(InvalidArgument, "delays", lambda: store.publish_many("a", [b"", b""], [1]))
    refused(WrongType, "bodies", lambda: anything.publish_many("a", 5))
    refused(WrongType, "bodies", lambda: anything.publish_many("a", iter([b""])))
    refused(WrongType, "body", lambda: anything.publish_many("a", b"ab"))
    refused(WrongType, "messages", lambda: anything.publish_many([b"a"]))
    refused(WrongType, "subject", lambda: anything.publish_many(5, [b""]))
    with pytest.raises(WrongType):
        anything.publish_many("a")


@pytest.mark.parametrize("found", ["dmq1-", 5, None, b"dmq1-"])
def test_a_receipt_that_is_none(store: Store, found: Any) -> None:
    refused(WrongType, "receipt", lambda: store.cancel(found))
    refused(WrongType, "receipt", lambda: store.cancel_many([found]))


@pytest.mark.parametrize(
    "text",
    ["", "dmq1-", "dmq2-" + "A" * 64, "dmq1-" + "A" * 63, "dmq1-" + "A" * 65, "dmq1-" + "!" * 64, "dmq1-" + "é" * 64],
)
def test_a_text_that_is_no_receipt(text: str) -> None:
    refused(InvalidArgument, "receipt", lambda: delaymq.Receipt.parse(text))


def test_a_receipt_of_the_wrong_type() -> None:
    anything: Any = delaymq.Receipt
    refused(WrongType, "text", lambda: anything.parse(b"dmq1-"))


@pytest.mark.parametrize(("subject", "kind"), BAD_SUBJECTS)
def test_a_bad_subscription(store: Store, subject: Any, kind: type[DelaymqError]) -> None:
    refused(kind, "subject", lambda: store.subscribe(subject, group="g"))
    refused(kind, "group", lambda: store.subscribe("a", group=subject))


@pytest.mark.parametrize(
    ("in_flight_max", "kind"), [(0, InvalidArgument), (-1, InvalidArgument), (2**40, InvalidArgument), ("5", WrongType)]
)
def test_a_bad_number_in_flight(store: Store, in_flight_max: Any, kind: type[DelaymqError]) -> None:
    refused(kind, "in_flight_max", lambda: store.subscribe("a", group="g", in_flight_max=in_flight_max))


def test_a_bad_start(store: Store) -> None:
    start: Any = "middle"
    refused(InvalidArgument, "start", lambda: store.subscribe("a", group="g", start=start))


@pytest.mark.parametrize(
    ("options", "argument", "kind"),
    [
        ({"durability": "paper"}, "durability", InvalidArgument),
        ({"durability": None}, "durability", WrongType),
        ({"segment_bytes": 0}, "segment_bytes", InvalidArgument),
        ({"segment_bytes": 1.5}, "segment_bytes", WrongType),
        ({"segment_bytes": 2**40}, "segment_bytes", InvalidArgument),
        ({"delay_max": -1}, "delay_max", InvalidArgument),
        ({"delay_max": "1h"}, "delay_max", WrongType),
        ({"keep_finished": math.nan}, "keep_finished", InvalidArgument),
    ],
)
def test_a_bad_option(tmp_path: Path, options: Any, argument: str, kind: type[DelaymqError]) -> None:
    refused(kind, argument, lambda: delaymq.open(tmp_path / "other", **options))


def test_a_bad_path() -> None:
    anything: Any = 5
    refused(WrongType, "path", lambda: delaymq.open(anything))


@pytest.mark.parametrize(
    "body", [b"x", bytearray(b"x"), memoryview(b"x"), array.array("I", [1, 2]), memoryview(b"abcdef")[::2]]
)
def test_everything_bytes_like_is_taken(tmp_path: Path, body: Any) -> None:
    with delaymq.open(tmp_path / "other", durability="os") as store, store.subscribe("a", group="g") as messages:
        store.publish("a", body)
        message = messages.get(5)
        assert message is not None
        assert message.body == bytes(memoryview(body).tobytes())
