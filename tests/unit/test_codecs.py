"""Whatever Python reads of users and of servers: any text and any bytes give what was meant, or the error that is said.

Each codec with a way back goes there and comes back the same.
"""

from __future__ import annotations

import argparse
import base64
import json
from array import array
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delaymq import Receipt, _core
from delaymq.cli.failures import UsageError
from delaymq.cli.input import arguments
from delaymq.cli.input.json_lines import body_of, message_of
from delaymq.cli.input.settings import KEYS, load
from delaymq.client.options import Address, Addresses
from delaymq.demo.frames import HEADER, Deliveries, FrameReader, Kind
from delaymq.demo.summary import bars, percentile
from delaymq.durations import LEVELS_S, MILLISECONDS_MAX, delay_ms, due_ms, due_of, level_ms, moment
from delaymq.errors import InvalidArgument, TooLarge, WrongType
from delaymq.message import Publish
from delaymq.retries import backoff
from differential.readers import changed, corpus

REFUSED = (InvalidArgument, TooLarge, WrongType)
thorough = settings(max_examples=300, deadline=None, derandomize=True)


def tried(
    refused: type[Exception] | tuple[type[Exception], ...], read: Callable[..., Any], *arguments_given: object
) -> Any:
    """What it reads, or the error that it refuses it with. Any other error is a failure."""
    try:
        return read(*arguments_given)
    except refused as error:
        return error


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.timedeltas(),
    st.datetimes(timezones=st.one_of(st.none(), st.just(UTC))),
    st.lists(st.integers(), max_size=2),
)
zones = st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(timezone)
moments = st.datetimes(min_value=datetime(1970, 1, 3), max_value=datetime(9999, 12, 29), timezones=zones)  # noqa: DTZ001
# Text of any letters, halves of pairs among them.
texts = st.text(st.characters(exclude_categories=()), max_size=40)


# Delays and times.


@thorough
@given(st.integers(0, timedelta.max // timedelta(microseconds=1)))
def test_a_timedelta_is_its_milliseconds_rounded_up(microseconds: int) -> None:
    assert delay_ms(timedelta(microseconds=microseconds)) == -(-microseconds // 1_000)


@thorough
@given(st.floats(0, 1e12))
def test_a_float_is_never_early_and_never_late_by_more_than_a_millisecond(seconds: float) -> None:
    found = delay_ms(seconds)
    assert -seconds * 1_000 * 2**-50 <= found - seconds * 1_000 <= 1 + seconds * 1_000 * 2**-50


@thorough
@given(moments)
def test_a_due_time_comes_back_within_a_millisecond(at: datetime) -> None:
    back = moment(due_ms(at))
    assert timedelta(0) <= back - at < timedelta(milliseconds=1)
    assert due_ms(back) == due_ms(at)


@thorough
@given(anything, anything, anything)
def test_what_is_no_due_time_is_refused_with_its_name(delay: Any, at: Any, level: Any) -> None:
    found = tried(REFUSED, due_of, delay, at, level)
    if isinstance(found, REFUSED):
        assert found.argument in ("delay", "at", "level")
        assert found.found is not None
    else:
        milliseconds, absolute = found
        assert 0 <= milliseconds <= MILLISECONDS_MAX
        assert absolute == (at is not None)


@pytest.mark.parametrize("level", range(1, len(LEVELS_S) + 1))
def test_a_level_is_a_delay(level: int) -> None:
    assert level_ms(level) == delay_ms(LEVELS_S[level - 1])


@thorough
@given(anything, anything, anything, anything, st.integers(1, 10_000))
def test_a_backoff_is_refused_or_within_its_bounds(
    first: Any, factor: Any, longest: Any, jitter: Any, attempt: int
) -> None:
    found = tried(REFUSED, backoff, first, factor, longest, jitter)
    if isinstance(found, REFUSED):
        assert found.argument in ("first", "factor", "longest", "jitter")
    else:
        retry_after = found
        assert 0 <= delay_ms(retry_after(attempt)) <= 2 * delay_ms(longest) + 1


# The command line.


@thorough
@given(st.lists(st.integers(0, 10**6), min_size=5, max_size=5), st.integers(1, 31))
def test_a_span_of_the_command_line_says_what_it_means(counts: list[int], chosen: int) -> None:
    units = [(unit, ms) for place, (unit, ms) in enumerate(arguments.UNITS.items()) if chosen >> place & 1]
    parts = [(count, unit, ms) for count, (unit, ms) in zip(counts, units, strict=False)]
    found = arguments.delay("".join(f"{count}{unit}" for count, unit, _ in parts))
    assert found == timedelta(milliseconds=sum(count * ms for count, _, ms in parts))


@thorough
@given(texts)
@example("9" * 400 + "d")
@example("1" * 5_000)
@example("0s")
@example("1_0s")
@example("\u0661s")
def test_every_text_is_a_duration_or_a_wrong_argument(text: str) -> None:
    for read in (arguments.delay, arguments.duration, arguments.moment, arguments.count):
        found = tried(argparse.ArgumentTypeError, read, text)
        if isinstance(found, argparse.ArgumentTypeError):
            assert str(found)
        else:
            assert isinstance(found, timedelta | datetime | int)


@thorough
@given(moments)
def test_a_moment_of_the_command_line_is_the_one_that_was_written(at: datetime) -> None:
    assert arguments.moment(at.isoformat()) == at
    assert due_ms(arguments.moment(at.isoformat())) == due_ms(at)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
names = st.sampled_from(
    ["subject", "body", "body_base64", "delay", "at", "level", "tags", "attributes", "message_id", "x"]
)


@thorough
@given(
    st.one_of(st.binary(max_size=40), st.dictionaries(names, json_values).map(lambda said: json.dumps(said).encode()))
)
@example(b"[" * 100_000)
@example(b'{"body": "x", "level": ' + b"9" * 5_000 + b"}")
def test_every_line_is_a_message_or_a_wrong_line(line: bytes) -> None:
    found = tried(UsageError, message_of, line, 7, "s")
    if isinstance(found, UsageError):
        assert str(found).startswith("line 7: ")
    else:
        message = found
        assert isinstance(message, Publish)


@thorough
@given(st.binary(max_size=60), st.text(max_size=8), st.lists(st.text(max_size=5), max_size=3))
def test_what_is_printed_as_a_line_is_read_as_the_same(body: bytes, subject: str, tags: list[str]) -> None:
    line = json.dumps({"subject": subject, "tags": tags, **body_of(body)}, ensure_ascii=False).encode()
    message = message_of(line, 1, None)
    assert (message.subject, message.body, message.tags) == (subject, body, tuple(tags))


@thorough
@given(st.sampled_from([key.name for key in KEYS] + ["store.pat", "x"]), texts)
def test_every_setting_is_read_or_refused_with_its_name(name: str, text: str) -> None:
    found = tried(UsageError, load, None, {}, [f"{name}={text}"])
    if isinstance(found, UsageError):
        assert name.partition("=")[0] in str(found)
    else:
        assert set(found) == {name}
        assert load(None, {}, [f"{name}={text}"]) == found


@thorough
@given(st.dictionaries(st.sampled_from([key.variable for key in KEYS] + ["DELAYMQ_A__B", "DELAYMQ__", "HOME"]), texts))
def test_every_environment_is_read_or_refused(environment: dict[str, str]) -> None:
    found = tried(UsageError, load, None, environment, [])
    if isinstance(found, UsageError):
        assert "the variable" in str(found)
    else:
        assert len(found) <= len(environment)


@thorough
@given(texts)
@example("[" * 10_000)
@example("a = 0x" + "f" * 5_000)
def test_every_file_is_toml_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = tried(UsageError, load, file, {}, [])
    assert not isinstance(found, UsageError) or str(file) in str(found)


# What crosses to and from servers and stores.


@thorough
@given(st.one_of(texts, texts.map(lambda text: f"delaymq://{text}")))
@example("delaymq://[::1%eth0]:1")
@example("delaymq://a:99999")
@example("delaymq://\u2100:1")
@example("delaymq://a,[::1],b:2")
def test_every_url_is_an_address_or_refused(url: str) -> None:
    found = tried(REFUSED, Addresses.of, url)
    if isinstance(found, REFUSED):
        assert found.argument == "url"
    else:
        assert all(0 < node.port < 65_536 for node in (found.first, *found.others))
        assert Addresses.of(str(found)) == found


@thorough
@given(st.ip_addresses(), st.integers(1, 65_535))
def test_an_address_comes_back_from_its_text(host: Any, port: int) -> None:
    address = Address(str(host), port)
    assert Address.of(f"delaymq://{address}") == address


def receipt_text(data: bytes) -> str:
    return "dmq1-" + base64.urlsafe_b64encode(b"\1" + data).decode()


@thorough
@given(
    st.one_of(texts, st.text("dmq1-ABC_-xyz019", max_size=70), st.binary(min_size=47, max_size=47).map(receipt_text))
)
def test_every_text_is_a_receipt_or_refused(text: str) -> None:
    found = tried(REFUSED, Receipt.parse, text)
    if isinstance(found, REFUSED):
        assert found.argument == "receipt"
    else:
        assert str(found) == text
        due = tried(TooLarge, lambda: found.due)  # one that a store gave out lies before the year 10,000
        assert isinstance(due, TooLarge) or due >= datetime(1970, 1, 1, tzinfo=UTC)


@thorough
@given(changed(corpus("meta")))
def test_every_meta_is_read_or_refused(meta: bytes) -> None:
    found = tried(REFUSED, _core.decode_meta, meta)
    if isinstance(found, REFUSED):
        assert found.argument == "meta"
    else:
        message_id, tags, attributes = found
        assert isinstance(message_id, str)
        assert all(isinstance(text, str) for text in (*tags, *attributes, *attributes.values()))


kinds = st.sampled_from(list(Kind))
rows = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.booleans(), st.booleans()), max_size=9
)


@thorough
@given(rows)
def test_deliveries_of_the_demo_come_back(batch: list[tuple[int, int, bool, bool]]) -> None:
    deliveries = Deliveries.empty()
    for number, due, redelivered, altered in batch:
        deliveries.add(number, due, redelivered=redelivered, altered=altered)
    assert Deliveries.from_bytes(deliveries.to_bytes()) == deliveries


@thorough
@given(st.lists(st.tuples(kinds, st.binary(max_size=20)), max_size=5), st.lists(st.integers(0, 200), max_size=5))
def test_frames_of_the_demo_are_the_same_however_they_are_cut(
    sent: list[tuple[Kind, bytes]], places: list[int]
) -> None:
    data = b"".join(HEADER.pack(kind, len(payload), 5) + payload for kind, payload in sent)
    places = sorted(place % (len(data) + 1) for place in places)
    reader = FrameReader()
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    found = [frame for piece in pieces for frame in reader.feed(piece)]
    assert [(frame.kind, frame.payload, frame.time_us) for frame in found] == [(*one, 5) for one in sent]


@thorough
@given(st.lists(st.floats(0, 1e6), max_size=50), st.floats(0, 1))
def test_a_percentile_is_one_of_the_values_and_not_exceeded_by_its_share(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(array("d", ordered), share)
    assert found in ordered or (not ordered and found == 0)
    assert sum(value <= found for value in ordered) >= share * len(ordered) - 1e-9
    assert sum(int(line.split("ms")[1].split()[0].replace(",", "")) for line in bars(ordered)) == len(ordered)
