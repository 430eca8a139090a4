"""docs/limits.md: each number is the code's, and each limit holds exactly there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from delaymq import (
    DelaymqError,
    InvalidArgument,
    Publish,
    Store,
    Subscription,
    TooLarge,
    durations,
    loading,
    subscription,
)
from delaymq._arguments import subjects
from delaymq._asyncio.event_loop import THREADS_MAX
from delaymq._store.recovery import DEDUPLICATE_MS_MIN, DELAY_MAX, KEEP_FINISHED, SEGMENT_BYTES, WINDOW_BYTES
from delaymq.administration import DEAD_LETTERS
from delaymq.cli.verbs import publish as publish_verb
from delaymq.client import options as client_options
from delaymq.client.commands import carrying
from delaymq.simulate import RECURRING_MAX
from delaymq.spark import destination
from delaymq.testing import open_store
from tidy import documents
from tidy.files import Source

ROOT = Path(__file__).resolve().parents[2]
PAGE = Source("docs/limits.md", (ROOT / "docs" / "limits.md").read_text("utf-8"))
NUMBER = re.compile(r"\*\*([\d,]+)\*\*")
OPTIONS = "rust/engine/src/options.rs"
DEFAULTS = "rust/core/src/store/options.rs"
FEED = "rust/core/src/schedule_log/feed/mod.rs"
LOADED = "rust/core/src/store/propose/loaded_postings.rs"
SEGMENT = "rust/core/src/message_log/segment.rs"
MESSAGE = "rust/core/src/record/limits.rs"
SERVER = "rust/server/src/options.rs"
CONNECTION = "rust/core/src/wire/quota/connection_limits.rs"
UNFINISHED = "rust/core/src/wire/quota/unfinished.rs"
SCALES = "rust/core/src/wire/quota/memory_accounting.rs"
TERMS = "rust/core/src/record/terms.rs"
TAGS = "rust/core/src/queues/tags.rs"
FILE_SUBJECTS = "rust/core/src/store/state/file_subjects.rs"
SERIES = "rust/core/src/store/state/recurring.rs"
PATTERN = "rust/recurrence/src/pattern.rs"
RULE = "rust/recurrence/src/rule.rs"
STAGING = "rust/core/src/run/staging/mod.rs"
ADOPTING = "rust/core/src/record/adopt.rs"
LOAD_JOBS = "rust/core/src/store/state/load_jobs.rs"
RECENT_MOVES = "rust/core/src/store/state/recent_moves.rs"


def constant(path: str, name: str) -> int:
    """A constant of the Rust code."""
    value = documents.constant_value((ROOT / path).read_text("utf-8"), name)
    assert isinstance(value, int), f"{path} has no number {name}"
    return value


def hours(path: str, name: str) -> int:
    """A constant of the Rust code that says how long something takes, in milliseconds."""
    return constant(path, name) // 3_600_000


def default(name: str) -> int:
    """What an owner takes for an option that nobody chose."""
    return chosen(DEFAULTS, name)


def chosen(path: str, name: str) -> int:
    """What a file gives a field."""
    [found] = re.findall(rf"^ +{name}: ([^:]+),$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    value = documents.constant_value(f"const CHOSEN: u64 = {found};", "CHOSEN")
    assert isinstance(value, int)
    return value


def matched(path: str, pattern: str) -> int:
    """A number that stands in the Rust code otherwise."""
    [found] = re.findall(pattern, (ROOT / path).read_text("utf-8"))
    return int(found.replace("_", ""))


def threads() -> int:
    return matched("rust/engine/src/store.rs", r"let works: \[\(&str, Work\); (\d+)\]")


EXPECTED: dict[str, Callable[[], list[int]]] = {
    "subject, group, message id, key": lambda: [1, constant(MESSAGE, "NAME_CHARACTERS_MAX")],
    "body": lambda: [constant(MESSAGE, "BODY_BYTES_MAX")],
    "tag, name of an attribute": lambda: [1, constant(MESSAGE, "WORD_BYTES_MAX")],
    "tags of a message": lambda: [constant(MESSAGE, "TAGS_MAX")],
    "attributes of a message": lambda: [constant(MESSAGE, "ATTRIBUTES_MAX")],
    "names and texts of a message's attributes together": lambda: [constant(MESSAGE, "ATTRIBUTE_BYTES_MAX")],
    "text of a receipt": lambda: [80],  # and see below
    "messages of one `publish_many`": lambda: [constant(MESSAGE, "BATCH_MESSAGES_MAX")],
    "bytes of one `publish_many`": lambda: [constant(OPTIONS, "BATCH_BYTES_MAX")],
    "delay of a publish or a `nack`": lambda: [DELAY_MAX.days],
    "RocketMQ's levels": lambda: [1, len(durations.LEVELS_S)],
    "keys of pending messages": lambda: [2 ** matched(TERMS, r"keys_max: 1 << (\d+)")],
    "remembered keys of dispatched messages": lambda: [2 ** matched(TERMS, r"keys_max: 1 << (\d+)")],
    "remembered ids of messages that were published with `deduplicate`": lambda: [
        2 ** matched(TERMS, r"ids_max: 1 << (\d+)")
    ],
    "how long an id is remembered": lambda: [
        matched(TERMS, r"id_window_ms: ([\d_]+) \}\n    \}"),
        DEDUPLICATE_MS_MIN,
    ],
    "how long a client may repeat a publish with an id, after it sent it first": lambda: [
        carrying.Carrier.retry_for_ms // 1000
    ],
    "messages of a staged run": lambda: [constant(STAGING, "STAGED_ROWS_MAX"), loading.RUN_ROWS_MAX],
    "subjects of a staged run": lambda: [constant(STAGING, "STAGED_NAMES_MAX")],
    "bytes of the messages of a staged run": lambda: [
        constant(STAGING, "STAGED_RECORD_BYTES_MAX"),
        loading.RUN_BYTES_MAX,
    ],
    "runs of one load": lambda: [constant(ADOPTING, "LOAD_RUNS_MAX")],
    "messages of one load": lambda: [constant(ADOPTING, "LOAD_ROWS_MAX")],
    "age of a staged run that is loaded": lambda: [
        hours(LOAD_JOBS, name) for name in ("LOAD_AGE_MS_MAX", "LOAD_SWEPT_MS")
    ],
    "remembered jobs": lambda: [
        constant(LOAD_JOBS, "LOAD_JOBS_MAX"),
        hours(LOAD_JOBS, "LOAD_JOB_KEPT_MS") // 24,
    ],
    "runs that are loaded within 20 hours": lambda: [constant(LOAD_JOBS, "LOAD_NAMES_MAX")],
    "how long a load from Spark waits for a server's answer": lambda: [int(destination.TIMEOUT_S)],
    "invalid rows that are reported of one batch": lambda: [
        constant("rust/tables/src/loading/mod.rs", "BAD_ROWS_TOLD_MAX")
    ],
    "series": lambda: [constant(SERIES, "SERIES_MAX")],
    "name, rule, zone, tags, attributes and body of a series together": lambda: [
        constant(SERIES, name) for name in ("SERIES_BYTES_MAX", "ALL_SERIES_BYTES_MAX")
    ],
    "interval": lambda: [
        constant(RULE, "EVERY_MS_MIN"),
        timedelta(milliseconds=constant(RULE, "HORIZON_MS")) // timedelta(days=1),
    ],
    "cron pattern, name of its zone": lambda: [
        constant(PATTERN, "TEXT_BYTES_MAX"),
        constant(RULE, "ZONE_BYTES_MAX"),
    ],
    "messages of series in a [simulation](how-to/simulate.md)": lambda: [RECURRING_MAX],
    "messages that came since the last checkpoint": lambda: [default("recent_entries_max")],
    "receipts of one `cancel_many` or `move_many`": lambda: [carrying.COMMANDS_MAX],
    "keys of one `cancel_keys` or `move_keys`": lambda: [carrying.COMMANDS_MAX],
    "remembered moves, whose repetition gets the first answer": lambda: [
        constant(RECENT_MOVES, "LAST_MOVES"),
        constant(RECENT_MOVES, "MOVES_KEPT_MS") // 60_000,
        constant(RECENT_MOVES, "RECENT_MOVES_MAX"),
    ],
    "jump of the machine's clock that holds dispatch": lambda: [
        constant("rust/core/src/clock.rs", "STEP_AHEAD_MS_MAX")
    ],
    "how far a step may differ from the one that an operator accepts": lambda: [
        constant("rust/core/src/clock.rs", "STEP_TOLD_MS_MIN")
    ],
    "how long the wall clock keeps its pace until its step is accepted (`clock_accept_after`)": lambda: [
        constant("rust/engine/src/options.rs", "CLOCK_ACCEPT_AFTER_MS_MIN")
    ],
    "a manual clock": lambda: [durations.moment(manual_time_max()).year - 1],
    "`in_flight_max`": lambda: [1, constant(OPTIONS, "IN_FLIGHT_MAX"), subjects.IN_FLIGHT_MAX],
    "`handle_within`, and the time of `extend`": lambda: [durations.hold_ms(0.001) or 0],
    "subjects of a subscription, listed or selected by its prefix": lambda: [
        constant("rust/core/src/store/names/selection.rs", "SUBJECTS_MAX"),
        constant("rust/server/src/subscriptions/subscribe.rs", "SUBJECT_BYTES"),
    ],
    "filters of a subscription": lambda: [
        constant(TAGS, "FILTERS_MAX"),
        constant(TAGS, "ASKED_TAGS_MAX"),
        constant("rust/core/src/record/limits.rs", "WORD_BYTES_MAX"),
        32 << 10,
    ],
    "a list of `batches`": lambda: [1, subscription.BATCH_MESSAGES_MAX, subscription.PULL_MESSAGES],
    "reason of a dead letter": lambda: [constant("rust/core/src/record/retry.rs", "REASON_BYTES_MAX")],
    "dead letters that one call lists": lambda: [DEAD_LETTERS],
    "attempts": lambda: [2 ** constant("rust/core/src/schedule_log/entry.rs", "ATTEMPT_BITS") - 1],
    "processes that have it open": lambda: [1],
    "subjects": lambda: [constant("rust/core/src/dispatch_log/mod.rs", "SUBJECT_NUMBER_MAX")],
    "bytes of a segment": lambda: [
        constant(OPTIONS, "SEGMENT_BYTES_MIN"),
        constant(SEGMENT, "SEGMENT_BYTES_MAX"),
        SEGMENT_BYTES,
    ],
    "bytes of the first segments": lambda: [constant("rust/core/src/message_log/segment.rs", "OPENING_SEGMENT_BYTES")],
    "segments prepared ahead": lambda: [
        constant("rust/engine/src/commit/committer.rs", name)
        for name in ("SEGMENTS_AHEAD", "SEGMENTS_AHEAD_AFTER_HUNGER")
    ],
    "retention of finished files": lambda: [KEEP_FINISHED // timedelta(hours=1)],
    "holes in one segment, or one run": lambda: [
        constant("rust/core/src/store/retention/segment_hole_search.rs", "HOLES_IN_FILE_MAX"),
        default("hole_bytes_min"),
    ],
    "subjects of one file that retention distinguishes": lambda: [constant(FILE_SUBJECTS, "SUBJECTS_MAX")],
    "subjects of one segment whose messages can be [read again](how-to/again.md)": lambda: [
        constant("rust/core/src/store/state/segment_ready.rs", "SUBJECTS_MAX")
    ],
    "ranges of expired and damaged messages that a subject remembers": lambda: [
        constant("rust/core/src/store/state/mod.rs", "GONE_RANGES_MAX")
    ],
    "checkpoints kept": lambda: [constant("rust/core/src/store/retention/kept_files.rs", "CHECKPOINTS_KEPT")],
    "a checkpoint is taken": lambda: [
        default("checkpoint_bytes"),
        default("checkpoint_facts"),
        default("reclaim_bytes"),
    ],
    "threads of its own": lambda: [threads(), THREADS_MAX],
    "`window_bytes`": lambda: [
        *(constant(DEFAULTS, name) for name in ("WINDOW_BYTES_MIN", "WINDOW_BYTES_MAX")),
        WINDOW_BYTES,
    ],
    "the window: messages due within the next **4,000** ms, or waiting to become ready": lambda: [
        default("window_ms"),
        matched("rust/core/src/schedule_log/entry.rs", r"assert!\(size_of::<Entry>\(\) == (\d+)\)"),
        constant(DEFAULTS, "WINDOW_ENTRY_BYTES"),
        default("window_entries_max"),
    ],
    "recent ready messages": lambda: [default("ready_entries_max")],
    "ready messages that were read from runs and come next": lambda: [constant(LOADED, "LOADED_MAX")],
    "connections": lambda: [chosen(SERVER, "connections_max"), chosen(SERVER, "connections_per_address_max")],
    "connections that have not given the token": lambda: [
        chosen(SERVER, name) for name in ("strangers_max", "strangers_per_address_max")
    ],
    "connections of plain HTTP": lambda: [
        chosen(SERVER, name) for name in ("http_connections_max", "http_connections_per_address_max", "http_ms_max")
    ],
    "a peer has not given its token, or sent a valid request": lambda: [
        chosen(CONNECTION, name) for name in ("first_request_ms_max", "first_request_bytes_max")
    ],
    "a client that has subscriptions is silent": lambda: [chosen(CONNECTION, "silence_ms_max")],
    "bytes read of all requests that have not arrived whole": lambda: [chosen(SERVER, "input_bytes_max")],
    "requests under way of a connection, by their frames and expected answers; memory of its subscriptions": (
        lambda: [
            chosen(CONNECTION, "kept_bytes_max"),
            constant("rust/core/src/wire/connection/under_way.rs", "REQUEST_BYTES"),
        ]
    ),
    "bytes that wait for a peer to read them": lambda: [chosen(CONNECTION, "output_bytes_max")],
    "memory that connections make the server keep": lambda: [
        matched(SCALES, r"all_bytes_max: (\d+) << 20, each") << 20,
        matched(SCALES, r"each_bytes_max: (\d+) << 20, free") << 20,
        matched(SCALES, r"free_bytes: (\d+) << 10") << 10,
    ],
    "parked pulls, which do not count as requests": lambda: [
        chosen(SERVER, "held_pulls_max"),
        chosen(SERVER, "held_pulls_max") // 2,
        chosen(CONNECTION, "held_max"),
        chosen(CONNECTION, "requests_max"),
    ],
    "a tag or a text in a consumer's filter; all of one request": lambda: [
        constant(MESSAGE, "WORD_BYTES_MAX"),
        constant(TAGS, "ASKED_BYTES_MAX"),
    ],
    "bytes of unfinished requests of an address": lambda: [
        chosen(UNFINISHED, name)
        for name in ("free_bytes", "paid_bytes_per_ms", "held_back_ms", "piece_bytes", "wait_ms_max")
    ],
    "the most that is counted of these; addresses that are remembered for it": lambda: [
        chosen(UNFINISHED, name) for name in ("owed_bytes_max", "addresses_max")
    ],
    "wrong tokens of an address": lambda: [
        constant("rust/server/src/access/control.rs", name) for name in ("WRONG_TOKENS", "WRONG_TOKEN_MS")
    ],
    "consumers that are switched off": lambda: [chosen("rust/core/src/wire/qmq/registry.rs", "switched_off_max")],
    "registered clients of QMQ": lambda: [chosen("rust/core/src/wire/qmq/registry.rs", "clients_max")],
    "log lines about peers": lambda: [constant("rust/server/src/access/control.rs", "NOTICES_MAX")],
    "bytes of a request, and so of a `publish_many` over TCP": lambda: [
        constant("rust/core/src/wire/frame.rs", "FRAME_BYTES_MAX")
    ],
    "requests of a client under way": lambda: [
        matched("rust/core/src/wire/client/caller.rs", r"requests_max: ([\d_]+),")
    ],
    "messages that a subscription fetches ahead": lambda: [
        constant("rust/client/src/session/subscription.rs", "PREFETCH")
    ],
    "acknowledgements that are sent without waiting for more": lambda: [
        constant("rust/client/src/session/settling.rs", "SETTLED_MAX")
    ],
    "how long a call waits for its answer": lambda: [int(client_options.TIMEOUT_S)],
    "how long a server may be silent": lambda: [
        int(client_options.SILENCE_S),
        int(client_options.SILENCE_OF_SEVERAL_S),
        int(client_options.HELLO_S),
    ],
    "token": lambda: [constant("rust/core/src/wire/extension/hello.rs", "TOKEN_BYTES_MAX")],
    "a line of `publish --jsonl`": lambda: [publish_verb.LINE_BYTES_MAX],
    "lines that it publishes together": lambda: [publish_verb.BATCH_MESSAGES],
    "ended messages of runs, as counts by subject and minute, so that a subject's forecast reads no rows": lambda: [
        constant("rust/core/src/schedule_log/count/ended.rs", name) for name in ("CELLS_MIN", "ROWS_PER_CELL")
    ],
    "floods at the same time, each with its own lane": lambda: [
        constant(FEED, "LANES_MAX") - 1,
        constant("rust/core/src/schedule_log/feed/shares.rs", "SMALLEST_SHARE"),
    ],
}
WITHOUT_A_NUMBER = {
    "keys and ids of messages",
    "the forecast of all subjects",
    "due time",
    "marks of free room",
    "missed times that `all` catches up with",
    "`delay_max`",
    "groups, consumers, threads and coroutines that wait",
    "pending messages in runs",
    "bodies",
}


def manual_time_max() -> int:
    return matched("rust/engine/src/clock/manual_clock.rs", r"const MANUAL_TIME_MAX: Millis = Millis\(([\d_]+)\)")


def rows() -> dict[str, str]:
    """What each row of each table says."""
    found = {}
    for number, line in enumerate(PAGE.lines):
        if line.startswith("| what |"):
            found.update({row.cells[0]: " | ".join(row.cells) for row in documents.table_after(PAGE.lines, number)})
    return found


def numbers(text: str) -> list[int]:
    return [int(found.replace(",", "")) for found in NUMBER.findall(text)]


def test_every_row_is_compared() -> None:
    assert set(rows()) == set(EXPECTED) | WITHOUT_A_NUMBER
    assert all(numbers(rows()[name]) == [] for name in WITHOUT_A_NUMBER)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_numbers_of_a_row_are_the_codes(name: str) -> None:
    assert numbers(rows()[name]) == EXPECTED[name]()


def test_the_words_below_a_table_are_the_codes() -> None:
    words = " ".join(line for line in PAGE.lines if not line.startswith("|"))
    assert numbers(words) == [default("copy_after_ms") // 1000]


def test_the_levels_are_as_the_page_lists_them() -> None:
    minutes = [60 * minute for minute in range(1, 11)]
    assert list(durations.LEVELS_S) == [1, 5, 10, 30, *minutes, 1200, 1800, 3600, 7200]


# Each limit of a call holds exactly: what lies on it is accepted, one more is not.


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("limits") / "store", segment_bytes=64 << 20) as found:
        yield found


@pytest.fixture(scope="module")
def messages(opened: Store) -> Iterator[Subscription]:
    with opened.subscribe("consumed", group="g") as found:
        yield found


Call = Callable[[Store, int], Any]


def about(**given: Any) -> Publish:
    return Publish("a", b"", delay=3600, **given)


AT_THE_LIMIT: list[tuple[str, int, type[DelaymqError], Call]] = [
    ("subject, group, message id, key", 1, InvalidArgument, lambda opened, size: opened.publish("ä" * size, b"")),
    ("subject, group, message id, key", 1, InvalidArgument, lambda opened, size: opened.start_group("a", "ä" * size)),
    ("body", 0, TooLarge, lambda opened, size: opened.publish("a", bytes(size))),
    (
        "subject, group, message id, key",
        1,
        InvalidArgument,
        lambda opened, size: opened.publish_many([about(message_id="ä" * size)]),
    ),
    (
        "tag, name of an attribute",
        1,
        InvalidArgument,
        lambda opened, size: opened.publish_many([about(tags=["x" * size])]),
    ),
    (
        "tag, name of an attribute",
        1,
        InvalidArgument,
        lambda opened, size: opened.publish_many([about(attributes={"x" * size: ""})]),
    ),
    ("tags of a message", 0, InvalidArgument, lambda opened, size: opened.publish_many([about(tags=["x"] * size)])),
    (
        "attributes of a message",
        0,
        InvalidArgument,
        lambda opened, size: opened.publish_many([about(attributes={str(one): "" for one in range(size)})]),
    ),
    ("messages of one `publish_many`", 0, TooLarge, lambda opened, size: opened.publish_many("a", [b""] * size, 3600)),
    (
        "delay of a publish or a `nack`",
        0,
        InvalidArgument,
        lambda opened, size: opened.publish("a", b"", delay=timedelta(days=size)),
    ),
    ("RocketMQ's levels", 1, InvalidArgument, lambda opened, size: opened.publish("a", b"", level=size)),
    (
        "`in_flight_max`",
        1,
        InvalidArgument,
        lambda opened, size: opened.subscribe("a", group="g", in_flight_max=size).close(),
    ),
]


@pytest.mark.parametrize(("name", "least", "kind", "call"), AT_THE_LIMIT)
def test_a_limit_holds_exactly(opened: Store, name: str, least: int, kind: type[DelaymqError], call: Call) -> None:
    most = EXPECTED[name]()[1 if least == 1 else 0]
    call(opened, most)
    with pytest.raises(kind):
        call(opened, most + 1)
    call(opened, least)
    if least == 1:
        with pytest.raises(InvalidArgument):
            call(opened, 0)


def test_attributes_hold_exactly_their_limit(opened: Store) -> None:
    [limit] = EXPECTED["names and texts of a message's attributes together"]()
    opened.publish_many([about(attributes={"kä": "v" * (limit - 4), "l": ""})])
    with pytest.raises(TooLarge) as refused:
        opened.publish_many([about(attributes={"kä": "v" * (limit - 4), "l": "v"})])
    assert (refused.value.limit, refused.value.found) == (limit, str(limit + 1))


def test_bytes_of_a_batch_are_limited_by_its_number_and_by_the_segment(opened: Store, tmp_path: Path) -> None:
    [limit] = EXPECTED["bytes of one `publish_many`"]()
    body = bytes(4 << 20)
    opened.publish_many("a", [body] * (limit // len(body) - 1), 3600)
    with pytest.raises(TooLarge):
        opened.publish_many("a", [body] * (limit // len(body)), 3600)
    with open_store(tmp_path / "small", segment_bytes=4 << 20) as small:
        small.publish("a", bytes(2_000_000))
        with pytest.raises(TooLarge):
            small.publish("a", bytes(2 << 20))


def test_a_list_and_a_reason_hold_exactly(opened: Store, messages: Subscription) -> None:
    [least, most, _] = EXPECTED["a list of `batches`"]()
    for size in (least, most):
        messages.batches(size)
    for size in (least - 1, most + 1):
        with pytest.raises(InvalidArgument):
            messages.batches(size)
    opened.publish("consumed", b"")
    message = messages.get(timeout=60)
    assert message is not None
    [reason] = EXPECTED["reason of a dead letter"]()
    with pytest.raises(TooLarge):
        message.dead_letter("x" * (reason + 1))
    message.dead_letter("x" * reason)


def test_receipts_fit_into_their_line(opened: Store) -> None:
    [limit] = EXPECTED["text of a receipt"]()
    for receipt in opened.publish_many("x" * 100, [bytes(1 << 20)] * 2, timedelta(days=3653)):
        text = str(receipt)
        assert text.isascii()
        assert len(text.splitlines()) == 1
        assert len(text) <= limit


def test_segments_are_made_of_any_size_in_range(tmp_path: Path) -> None:
    least, most, _ = EXPECTED["bytes of a segment"]()
    open_store(tmp_path / "least", segment_bytes=least).close()
    for wrong in (least - 1, most + 1):
        with pytest.raises(InvalidArgument):
            open_store(tmp_path / "wrong", segment_bytes=wrong)


def test_a_clock_ends_with_its_year() -> None:
    [year] = EXPECTED["a manual clock"]()
    assert durations.moment(manual_time_max()) == datetime(year + 1, 1, 1, tzinfo=UTC)
