"""A store that the library wrote and the second reader reads: both say the same, record for record."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crafting import flip, place_of, wait_until
from format_reader.layout import location
from format_reader.receipts import parse_receipt, read_receipt, receipt_check
from format_reader.records import KINDS, Record
from format_reader.runs import Run, key_of
from format_reader.store import Store, read_runs, read_store
from format_reader.test_independence import TESTS, run_alone

if TYPE_CHECKING:
    import delaymq
    from delaymq import Message, Receipt

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("delaymq") is None, reason="delaymq is not installed; make test installs it"
)

SUBJECTS = [f"subject-{number}" for number in range(5)]
MESSAGES = 600
FAR_SECONDS = 3_600
LOADED = 30
SEGMENT_BYTES = 64 * 1024
ROTTEN = b"this one rots, and is made whole again"


@dataclass
class History:
    """What the library was asked to do, and what it answered."""

    folder: Path
    published: list[tuple[Receipt, str, bytes]] = field(default_factory=list)
    cancelled: list[Receipt] = field(default_factory=list)
    moved: list[tuple[Receipt, Receipt]] = field(default_factory=list)
    acknowledged: list[Message] = field(default_factory=list)
    audited: list[Message] = field(default_factory=list)
    given_back: list[Message] = field(default_factory=list)
    soon: list[Receipt] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    loaded: list[tuple[int, list[bytes]]] = field(default_factory=list)
    redriven: int = 0
    expired: int = 0


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A store with facts of every kind that the face can make, two checkpoints and some restarts."""
    import delaymq  # noqa: PLC0415

    made = History(tmp_path_factory.mktemp("agreement") / "store")
    for turn in range(3):
        with delaymq.open(made.folder, segment_bytes=SEGMENT_BYTES) as store:
            publish(made, store, turn)
            consume(made, store)
            administer(made, store)
            attach(made, store)
            load(made, store, turn)
            store.checkpoint()
            publish(made, store, turn + 3)
    wait_and_rot(made)
    return made


def publish(made: History, store: delaymq.Store, turn: int) -> None:
    from delaymq import Outcome, Publish  # noqa: PLC0415

    bodies = [f"turn {turn} message {place} ".encode() + bytes(place % 97) for place in range(MESSAGES // 6)]
    subjects = [SUBJECTS[place % len(SUBJECTS)] for place in range(len(bodies))]
    delays = [0 if place % 2 else FAR_SECONDS + place for place in range(len(bodies))]
    rows = [Publish(*row) for row in zip(subjects, bodies, delays, strict=True)]
    receipts = list(store.publish_many(rows))
    made.published.extend(zip(receipts, subjects, bodies, strict=True))
    attributes = {"k": "wért", "empty": ""}
    named = store.publish(
        SUBJECTS[0], b"alone", delay=FAR_SECONDS, message_id=f"örder-{turn}", tags=["a", "β"], attributes=attributes
    )
    made.published.append((named, SUBJECTS[0], b"alone"))
    for receipt in receipts[::10]:
        assert store.cancel(receipt) is Outcome.DONE
        made.cancelled.append(receipt)
    for receipt, later in ((receipts[2], {"delay": 2 * FAR_SECONDS}), (receipts[4], {"at": receipts[6].due})):
        new = store.move(receipt, **later).receipt
        assert new is not None
        made.moved.append((receipt, new))


def consume(made: History, store: delaymq.Store) -> None:
    with store.subscribe(SUBJECTS[1], group="βilling", in_flight_max=16) as messages:
        for place in range(8):
            message = messages.get(timeout=20)
            assert message is not None
            if place % 4 == 3:
                message.nack(delay=FAR_SECONDS)
                made.given_back.append(message)
            else:
                message.ack()
                made.acknowledged.append(message)
    store.subscribe(SUBJECTS[2], group="latecomer", start="latest").close()


def attach(made: History, store: delaymq.Store) -> None:
    """A client of QMQ consumes: its consumer outlives each open. Its filter keeps messages back."""
    import delaymq.testing  # noqa: PLC0415
    from qmq_client.bodies import ANY_OF, Consumer, Pull, TagFilter  # noqa: PLC0415
    from qmq_client.connection import Connection  # noqa: PLC0415

    with delaymq.testing.serve(store) as server, Connection(server.url.removeprefix("delaymq://")) as client:
        for name in ("höst@@one", "host@@two"):
            assert client.pull(Pull(Consumer("quiet", "attached", name))) is None
        for tag in ("b", "c"):
            made.published.append((store.publish("quiet", tag.encode(), tags=[tag]), "quiet", tag.encode()))
        wanted = (TagFilter(ANY_OF, ("a",)),)
        pull = Pull(Consumer("quiet", "attached", "host@@two"), filters=wanted)
        wait_until(
            lambda: client.pull(pull) is None and all(one.lag == 0 for one in store.groups() if one.subject == "quiet")
        )


def load(made: History, store: delaymq.Store, turn: int) -> None:
    """Rows of two subjects, stored by one fact."""
    import pyarrow  # noqa: PLC0415

    from delaymq.loading import stage  # noqa: PLC0415

    due = [datetime.now(UTC) + timedelta(seconds=2 * FAR_SECONDS + place) for place in range(LOADED)]
    bodies = [f"turn {turn} loaded {place}".encode() for place in range(LOADED)]
    subjects = [SUBJECTS[place % 2] for place in range(LOADED)]
    done = store.load(
        f"job-{turn}", stage(made.folder, pyarrow.table({"subject": subjects, "due": due, "body": bodies}))
    )
    made.loaded.append((done.first_sequence, bodies))


def administer(made: History, store: delaymq.Store) -> None:
    """Dead letters that come back or stay, a reset, a removal, an expiry."""
    with store.subscribe(SUBJECTS[3], group="undertaker") as messages:
        for place in range(2):
            message = messages.get(timeout=20)
            assert message is not None
            made.dead.append((message.sequence, f"für immer {place}"))
            message.dead_letter(made.dead[-1][1])
    made.redriven += store.redrive(SUBJECTS[3], "undertaker", limit=1)
    store.reset_group(SUBJECTS[2], "latecomer", "unfinished")
    store.start_group(SUBJECTS[2], "short-lived")
    store.remove_group(SUBJECTS[2], "short-lived")
    made.expired += store.expire(SUBJECTS[4], 0)


def wait_and_rot(made: History) -> None:
    """Some become due while the store is open. Of one that is ready the payload is damaged until it was given up by a
    fact; then its bytes are put right again.
    """
    import delaymq  # noqa: PLC0415

    with delaymq.open(made.folder) as store:
        ready = store.status().ready
        made.published.append((store.publish(SUBJECTS[0], ROTTEN), SUBJECTS[0], ROTTEN))
        for delay in (0.03, 0.02, 0.03):
            made.soon.append(store.publish(SUBJECTS[0], b"soon", delay=delay))
            made.published.append((made.soon[-1], SUBJECTS[0], b"soon"))
        wait_until(lambda: store.status().ready == ready + 1 + len(made.soon))
    path, at = place_of(made.folder, ROTTEN)
    flip(path, at)
    with delaymq.open(made.folder) as store, store.subscribe(SUBJECTS[0], group="auditor") as messages:
        while store.status().voided == 0:
            found = messages.get(timeout=0.2)
            if found is not None:
                made.audited.append(found)
                found.ack()
        name_some(made, store)
    flip(path, at)


def name_some(made: History, store: delaymq.Store) -> None:
    """What has keys and ids, behind every checkpoint: moved, cancelled and replaced; and what recurs."""
    for how in ({"key": "k"}, {"key": "l", "message_id": "m", "deduplicate": True}):
        made.published.append((store.publish(SUBJECTS[0], b"named", delay=FAR_SECONDS, **how), SUBJECTS[0], b"named"))
    new = store.move(made.published[-1][0], delay=FAR_SECONDS + 1).receipt
    assert new is not None
    made.moved.append((made.published[-1][0], new))
    store.move_key(SUBJECTS[0], "l", delay=FAR_SECONDS + 2)
    store.cancel_key(SUBJECTS[0], "k")
    series = store.recur(SUBJECTS[0], b"again", name="täglich", every=FAR_SECONDS)
    assert series.receipt is not None
    made.published.append((series.receipt, SUBJECTS[0], b"again"))
    assert not store.end_recurring(SUBJECTS[0], "another")


@pytest.fixture(scope="module")
def read(history: History) -> Store:
    return read_store(history.folder)


@pytest.fixture(scope="module")
def runs(history: History) -> dict[int, Run]:
    return read_runs(history.folder)


def test_every_published_message_is_there_once_and_nothing_else(history: History, read: Store) -> None:
    names = {record.fields["number"]: record.fields["name"] for record in read.of_kind("subject")}
    found = {
        record.sequence: (names[record.fields["subject"]], record.fields["body"], record.fields["due_ms"])
        for record in read.of_kind("message")
    }
    expected = {
        receipt.sequence: (subject, body, round(receipt.due.timestamp() * 1_000))
        for receipt, subject, body in history.published
    }
    assert found == expected
    assert all(record.payload_is_whole for _, record in read.facts)


def test_sequences_are_dense_from_the_first(read: Store) -> None:
    expected = 1
    for _, record in read.facts:
        assert record.sequence == expected
        # A load takes one for each of its messages.
        expected += record.fields["rows"] if record.kind == "adopt" else 1


def test_every_receipt_proves_itself_under_its_epochs_nonce(history: History, read: Store) -> None:
    nonces = {record.fields["epoch"]: record.fields["nonce"] for record in read.of_kind("epoch_start")}
    assert sorted(nonces) == [1, 2, 3, 4, 5]
    for receipt, _, body in history.published:
        data = parse_receipt(str(receipt))
        fields = read_receipt(data)
        assert fields["stream"] == read.identity["stream"]
        assert (fields["sequence"], fields["size"]) == (receipt.sequence, len(body))
        assert fields["check"] == receipt_check(data, nonces[fields["epoch"]])


def test_each_epoch_of_a_checkpoint_begins_behind_the_batch_whose_chain_it_names(read: Store) -> None:
    batches = [batch.header for segment in read.segments.values() for batch in segment.batches if batch.has_facts]
    chains = {header["base_sequence"]: header["chain_before"] for header in batches}
    epochs = read.checkpoints[max(read.checkpoints)]["body"]["epochs"]
    assert [epoch["previous_chain"] for epoch in epochs] == [chains[epoch["first_sequence"]] for epoch in epochs]
    assert len(epochs) > 1


def test_every_cancel_names_its_message(history: History, read: Store) -> None:
    found = [record.fields["target_sequence"] for record in read.of_kind("cancel")]
    assert found == [receipt.sequence for receipt in history.cancelled]


def test_every_move_names_its_message_and_when_it_is_due(history: History, read: Store) -> None:
    found = [
        (record.fields["target_sequence"], record.sequence, record.fields["due_ms"], record.fields["delay_ms"])
        for record in read.of_kind("move")
    ]
    delays = [2 * FAR_SECONDS * 1_000, None] * 6 + [FAR_SECONDS * 1_000 + 1_000]
    assert found == [
        (receipt.sequence, new.sequence, round(new.due.timestamp() * 1_000), delay_ms)
        for (receipt, new), delay_ms in zip(history.moved, delays, strict=True)
    ]


def test_no_ready_fact_was_written_before_its_entries_were_due(read: Store) -> None:
    for segment in read.segments.values():
        for batch in segment.batches:
            for _, record in batch.records:
                if record.kind == "ready":
                    assert all(due <= batch.header["trusted_ms"] for due, _, _ in record.fields["entries"])
                    assert not batch.is_held


def test_ready_facts_name_what_became_due_and_nothing_else_in_the_order_of_due_times(
    history: History, read: Store
) -> None:
    found = [entry for record in read.of_kind("ready") for entry in record.fields["entries"]]
    due = sorted((round(receipt.due.timestamp() * 1_000), receipt.sequence) for receipt in history.soon)
    assert [(due_ms, sequence) for due_ms, sequence, _ in found] == due


def test_what_was_acknowledged_and_given_back_is_in_the_log(history: History, read: Store) -> None:
    ranges = [record.fields["ranges"] for record in read.of_kind("acknowledge")]
    acknowledged = sum(count for found in ranges for _, count in found)
    assert acknowledged == len(history.acknowledged) + len(history.audited)
    retries = [record.fields for record in read.of_kind("retry") if record.fields["destination"] == "again"]
    assert [retry["attempt"] for retry in retries] == [message.attempt + 1 for message in history.given_back]
    groups = {(record.fields["name"], record.fields["start"]) for record in read.of_kind("group")}
    assert {("βilling", "unfinished"), ("latecomer", "latest")} <= groups


def test_each_acknowledgement_names_by_its_offsets_the_messages_that_were_acknowledged(
    history: History, read: Store
) -> None:
    """The ready numbers of subject-1 are its messages in the order of the log: none that was far became due."""
    subject = next(
        record.fields["number"] for record in read.of_kind("subject") if record.fields["name"] == SUBJECTS[1]
    )
    ready = [
        record.sequence
        for record in read.of_kind("message")
        if record.fields["subject"] == subject and record.fields["due_ms"] <= record.fields["published_ms"]
    ]
    assigns = [record.fields for record in read.of_kind("assign")]
    group = assigns[0]["group"]  # the first that ever consumed
    given = {}
    for assign in assigns:
        if assign["group"] == group:
            numbers = numbers_of(assign["ranges"])
            given.update({(assign["consumer"], assign["first_offset"] + at): n for at, n in enumerate(numbers)})
    done = [
        ready[given[record.fields["consumer"], offset]]
        for record in read.of_kind("acknowledge")
        if record.fields["group"] == group
        for offset in numbers_of(record.fields["ranges"])
    ]
    assert done == [message.sequence for message in history.acknowledged]


def numbers_of(ranges: list[tuple[int, int]]) -> list[int]:
    return [number for first, count in ranges for number in range(first, first + count)]


def test_what_operators_did_is_in_the_log(history: History, read: Store) -> None:
    retries = [record.fields for record in read.of_kind("retry")]
    dead = [(retry["payload_sequence"], retry["reason"]) for retry in retries if retry["destination"] == "dead_letter"]
    assert dead == history.dead
    redrives = [record.fields["payload_sequence"] for record in read.of_kind("redrive")]
    assert len(redrives) == history.redriven == 3
    assert set(redrives) <= {sequence for sequence, _ in history.dead}
    expired = [count for record in read.of_kind("expire") for _, count in record.fields["ranges"]]
    assert sum(expired) == history.expired > 0
    assert [record.fields["start"] for record in read.of_kind("group_reset")] == ["unfinished"] * 3
    assert [record.fields["end"] for record in read.of_kind("group_end")] == ["with_retries"] * 3


def test_assignments_stay_below_what_was_reserved(read: Store) -> None:
    reserved: dict[tuple[int, int], tuple[int, int]] = {}
    assigned = 0
    for _, record in read.facts:
        if record.kind == "reserve":
            key = (record.fields["group"], record.fields["consumer"])
            reserved[key] = (record.fields["offset_end"], record.fields["number_end"])
        elif record.kind == "assign":
            key = (record.fields["group"], record.fields["consumer"])
            count = sum(count for _, count in record.fields["ranges"])
            assert record.fields["first_offset"] + count <= reserved[key][0]
            assigned += count
    assert assigned >= 24


def test_each_checkpoint_names_whole_files_and_is_a_moment_of_the_log(read: Store, runs: dict[int, Run]) -> None:
    assert 1 <= len(read.checkpoints) <= 2
    ends = {
        batch.next_sequence: batch.header["chain"] for segment in read.segments.values() for batch in segment.batches
    }
    for checkpoint in read.checkpoints.values():
        body = checkpoint["body"]
        position = body["position"]
        assert ends[position["next_sequence"]] == position["chain"]
        for named in body["schedule_runs"] + body["dispatch_runs"]:
            run = runs[named["number"]]
            assert (run.length, run.check) == (named["length"], named["check"])
        assert {run["number"] for run in body["schedule_runs"]} >= {row["run"] for row in pending_windows(body)}
        assert min(read.segments) <= body["floor"]


def pending_windows(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [window for window in body["windows"] if "pending" in window["states"]]


def test_the_bits_of_a_checkpoint_are_what_the_log_says(read: Store) -> None:
    cancelled = {record.fields["target_sequence"]: record.sequence for record in read.of_kind("cancel")}
    for checkpoint in read.checkpoints.values():
        body = checkpoint["body"]
        states = {
            window["first"] + place: state for window in body["windows"] for place, state in enumerate(window["states"])
        }
        end = body["position"]["next_sequence"]
        for target, sequence in cancelled.items():
            if sequence < end:
                assert states[target] == "cancelled"
        moved = {record.fields["target_sequence"]: record.sequence for record in read.of_kind("move")}
        for target, sequence in moved.items():
            if sequence < end:
                assert (states[target], states[sequence]) == ("nothing", "pending")
        for record in read.of_kind("message"):
            if record.sequence < end and record.sequence not in cancelled | moved:
                far = record.fields["due_ms"] > record.fields["published_ms"]
                assert states[record.sequence] == ("pending" if far else "dispatched")


def test_every_pending_entry_has_a_row_that_finds_its_payload(read: Store, runs: dict[int, Run]) -> None:
    by_location = dict(read.facts)
    for checkpoint in read.checkpoints.values():
        for window in pending_windows(checkpoint["body"]):
            run = runs[window["run"]]
            rows = {row["sequence"]: row for row in run.rows}
            assert [key_of(1, row) for row in run.rows] == sorted(key_of(1, row) for row in run.rows)
            for place, state in enumerate(window["states"]):
                if state == "pending":
                    assert_payload(rows[window["first"] + place], run, runs, by_location)


def assert_payload(row: dict[str, int], run: Run, runs: dict[int, Run], by_location: dict[int, Record]) -> None:
    file, number, _ = location(row["location"])
    if file == "run":
        holder = runs[number] if number != run.header["number"] else run
        found = {record.sequence: record for record in holder.payloads.values()}[row["payload_sequence"]]
        assert found.kind == "message"
    else:
        assert by_location[row["location"]].sequence == row["payload_sequence"]


def test_what_was_loaded_is_read_from_its_file_and_its_fact(
    history: History, read: Store, runs: dict[int, Run]
) -> None:
    adopted = read.of_kind("adopt")
    assert [record.sequence for record in adopted] == [first for first, _ in history.loaded]
    for record, (first, bodies) in zip(adopted, history.loaded, strict=True):
        [run] = [run for run in runs.values() if run.rows[0]["sequence"] == first and run.footer.get("names")]
        assert run.footer["names"] == SUBJECTS[:2]
        assert [run.payloads[row["sequence"]].fields["body"] for row in run.rows] == bodies
        assert record.fields["rows"] == len(run.rows)


def test_each_record_is_what_the_library_decodes_kind_sequence_and_fields(history: History, read: Store) -> None:
    from delaymq import _core  # noqa: PLC0415

    theirs = [
        (sequence, kind, comparable(kind, fields)) for sequence, kind, fields in _core.records(str(history.folder))
    ]
    ours = [(record.sequence, record.kind, record.fields) for _, record in read.facts]
    for their, our in zip(theirs, ours, strict=True):
        assert our == their
    assert {kind for _, kind, _ in ours} == {kind for kind, _ in KINDS.values()}
    attached = [record.fields["consumer"] for record in read.of_kind("attach")]
    assert attached == ["höst@@one", "host@@two"] * 3


def comparable(kind: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    """What the library decoded, in the shapes of the reader: meta is taken apart by the library too."""
    from delaymq import _core  # noqa: PLC0415

    if kind == "message":
        message_id, tags, attributes = _core.decode_meta(fields.pop("meta"))
        pairs = [(name, value.encode()) for name, value in attributes.items()]
        return fields | {"message_id": message_id, "tags": list(tags), "attributes": pairs}
    if kind in {"acknowledge", "pass_over"}:
        return fields | {"first_offset": 0}
    return fields


def test_the_reader_reads_the_store_where_delaymq_cannot_be_imported(history: History, read: Store) -> None:
    ended = run_alone(TESTS, history.folder)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kinds"] == Counter(record.kind for _, record in read.facts)


def test_verify_counts_what_the_second_reader_counts(history: History, read: Store) -> None:
    from delaymq import _core  # noqa: PLC0415

    found = _core.verify(str(history.folder))
    assert found["problems"] == []
    assert found["records"] == len(read.facts)
