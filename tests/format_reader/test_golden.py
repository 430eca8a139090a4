"""The second reader reads every golden file, and says what the library was told to write."""

from __future__ import annotations

from typing import Any

import pytest

from format_reader.batches import Batch, read_batch
from format_reader.checkpoints import read_checkpoint
from format_reader.golden import GOLDEN, parse, read_golden
from format_reader.identity import read_identity
from format_reader.layout import DamagedError, crc32, location
from format_reader.receipts import parse_receipt, read_receipt, receipt_check, siphash_2_4
from format_reader.records import KINDS, Record, read_record
from format_reader.runs import read_footer, read_run
from format_reader.segments import HEADER_BYTES, read_segment

DUE = 1_700_000_600_000
NOW = 1_700_000_000_000
MESSAGE = {
    "due_ms": DUE,
    "published_ms": NOW,
    "subject": 3,
    "opaque": True,
    "message_id": "order-17",
    "tags": ["a", "β"],
    "attributes": [("k", b"\x00\x01\x02")],
    "body": b"the body",
}
EPOCH_START = {
    "epoch": 1,
    "format_version": 1,
    "nonce": b"\xa1" * 16,
    "node": b"\xb2" * 16,
    "previous_epoch": 0,
    "previous_chain": 0,
    "previous_sequence": 0,
    "delay_ms_max": 315_576_000_000,
}
TARGET = {"target_due_ms": DUE, "target_sequence": 7, "subject": 3, "size": 8}
RANGES = [(10, 3), (20, 1)]
HELD = {"group": 5, "consumer": 6}
EXPIRE: dict[str, Any] = {"subject": 3, "group": 5, "due_before_ms": 0, "ranges": RANGES, "received": False}
EXPIRED: dict[str, Any] = {"destination": "expired", "reason": "", "attempt": 0}
RETRY: dict[str, Any] = {
    **HELD,
    "offset": 101,
    "number": 11,
    "due_ms": NOW + 900_000,
    "target": 8,
    "attempt": 2,
    "payload_sequence": 7,
    "size": 121,
    "received": False,
}
EXPIRING: dict[str, Any] = {
    "due_ms": DUE,
    "published_ms": NOW,
    "subject": 3,
    "opaque": True,
    "expires_ms": DUE + 60_000,
    "body": b"of use for a minute",
    "message_id": "",
    "tags": [],
    "attributes": [],
}
RECORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "record_message": ("message", MESSAGE),
    "record_message_that_expires": ("message", EXPIRING | {"on_expiry": "drop"}),
    "record_message_that_dies": ("message", EXPIRING | {"on_expiry": "dead_letter"}),
    "record_message_of_qmq": (
        "message",
        {"due_ms": NOW, "published_ms": NOW, "subject": 4, "opaque": False, "body": b"kept as it came"},
    ),
    "record_cancel": ("cancel", TARGET),
    "record_move": ("move", TARGET | {"due_ms": NOW + 900_000, "delay_ms": None}),
    "record_move_by_delay": ("move", TARGET | {"due_ms": NOW + 900_000, "delay_ms": 900_000}),
    "record_terms": (
        "terms",
        {
            "messages": 2,
            "keys_max": 1_000,
            "ids_max": 2_000,
            "id_window_ms": 600_000,
            "rows": [(0, (0x0102, 0x0304), (0x0506, 0x0708), 1), (1, (0x090A, 0x0B0C), None, 0)],
        },
    ),
    "record_by_key_cancel": (
        "by_key",
        {"key": (0x0102, 0x0304), "subject": 3, "target_due_ms": 0, "target_sequence": 0}
        | {"due_ms": 0, "delay_ms": None, "what": "cancel"},
    ),
    "record_by_key_move": (
        "by_key",
        {"key": (0x0102, 0x0304), "subject": 3, "target_due_ms": DUE, "target_sequence": 7}
        | {"due_ms": NOW + 900_000, "delay_ms": 900_000, "what": "move"},
    ),
    "record_adopt": (
        "adopt",
        {
            "job": (0x0102, 0x0304),
            "rows": 4,
            "runs": [(NOW, b"golden stream 01", 12_708, 1_452_304_297, 4)],
        },
    ),
    "record_recur": (
        "recur",
        {"what": "keep", "subject": 3, "name": "dünning", "rule": "30 9 * * mon-fri", "zone": "Europe/Berlin"}
        | {"catch_up": "skip", "after_ms": NOW, "meta": b"", "body": b"again"},
    ),
    "record_recur_that_expires": (
        "recur",
        {"what": "keep", "subject": 3, "name": "dünning", "rule": "30 9 * * mon-fri", "zone": "Europe/Berlin"}
        | {"catch_up": "skip", "after_ms": NOW, "meta": b"", "body": b"again"}
        | {"on_expiry": "dead_letter", "expires_after_ms": 60_000},
    ),
    "record_recur_end": ("recur", {"what": "end", "subject": 3, "name": "dünning"}),
    "record_recur_over": ("recur", {"what": "over", "series": 7}),
    "record_occurrence": ("occurrence", {"series": 7, "after_ms": NOW}),
    "record_ready": ("ready", {"entries": [(DUE, 7, 3), (DUE, 9, 4), (DUE + 1, 8, 3)]}),
    "record_subject": ("subject", {"number": 3, "name": "order.timeout"}),
    "record_group": ("group", {"subject": 3, "start": "unfinished", "name": "billing"}),
    "record_group_latest": ("group", {"subject": 3, "start": "latest", "name": "βilling"}),
    "record_group_at_number": (
        "group",
        {"subject": 3, "start": "number", "start_number": 4_000_000_007, "name": "βilling"},
    ),
    "record_group_end": ("group_end", {"group": 5, "end": "alone"}),
    "record_group_end_with_retries": ("group_end", {"group": 5, "end": "with_retries"}),
    "record_group_reset": ("group_reset", {"group": 5, "start": "latest"}),
    "record_group_reset_to_number": ("group_reset", {"group": 5, "start": "number", "start_number": 4_000_000_007}),
    "record_consumer": ("consumer", {"group": 5, "name": "worker-1"}),
    "record_consumer_end": ("consumer_end", {"group": 5, "consumer": 6}),
    "record_attach": (
        "attach",
        {
            "subject": 3,
            "start": "latest",
            "block": 256,
            "is_broadcast": True,
            "group": "βilling",
            "consumer": "host-7@@0a1b",
        },
    ),
    "record_attach_at_number": (
        "attach",
        {
            "subject": 3,
            "start": "number",
            "start_number": 4_000_000_007,
            "block": 256,
            "is_broadcast": False,
            "group": "βilling",
            "consumer": "host-7@@0a1b",
        },
    ),
    "record_reserve": ("reserve", {"group": 5, "consumer": 6, "offset_end": 256, "number_end": 300}),
    "record_assign": ("assign", {"group": 5, "consumer": 6, "first_offset": 100, "ranges": RANGES}),
    "record_pass_over": ("pass_over", {"group": 5, "consumer": 6, "first_offset": 0, "ranges": RANGES}),
    "record_acknowledge": ("acknowledge", HELD | {"first_offset": 0, "ranges": RANGES, "filtered": False}),
    "record_acknowledge_filtered": ("acknowledge", HELD | {"first_offset": 0, "ranges": RANGES, "filtered": True}),
    "record_retry": ("retry", RETRY | {"destination": "again", "reason": ""}),
    "record_retry_dead_letter": (
        "retry",
        RETRY | {"destination": "dead_letter", "reason": "no such örder"},
    ),
    "record_retry_expired": ("retry", RETRY | EXPIRED),
    "record_retry_expired_received": ("retry", RETRY | EXPIRED | {"received": True}),
    "record_redrive": (
        "redrive",
        {"group": 9, "target": 8, "number": 4, "due_ms": NOW + 900_000, "payload_sequence": 7},
    ),
    "record_expire": ("expire", EXPIRE | {"group": 0, "due_before_ms": DUE}),
    "record_expire_by_themselves": ("expire", EXPIRE),
    "record_expire_received": ("expire", EXPIRE | {"received": True}),
    "record_void_ready": ("void", {"subject": 3, "what": 0, "number": 9}),
    "record_void_pending": ("void", {"subject": 3, "what": 1, "number": 7}),
    "record_epoch_start": ("epoch_start", EPOCH_START),
}


def golden_record(name: str) -> tuple[int, bytes]:
    facts, data = read_golden(name)
    return int(facts["sequence"]), data


def test_every_golden_record_is_read_and_every_kind_has_one() -> None:
    assert {path.stem for path in GOLDEN.glob("record_*.hex")} == set(RECORDS)
    assert {kind for kind, _ in RECORDS.values()} == {name for name, _ in KINDS.values()}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_what_was_written(name: str) -> None:
    sequence, data = golden_record(name)
    record = read_record(data, 0, sequence)
    assert (record.kind, record.fields) == RECORDS[name]
    assert record.payload_is_whole
    assert record.taken == len(data)


@pytest.mark.parametrize("name", RECORDS)
def test_each_flipped_bit_of_a_record_is_found(name: str) -> None:
    sequence, data = golden_record(name)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        assert found_damaged(bytes(flipped), sequence), f"{name}: bit {bit}"


def found_damaged(data: bytes, sequence: int) -> bool:
    try:
        return not read_record(data, 0, sequence).payload_is_whole
    except DamagedError:
        return True


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_under_another_sequence_is_refused(name: str) -> None:
    sequence, data = golden_record(name)
    for other in (sequence - 1, sequence + 1, sequence ^ (1 << 32), 0):
        with pytest.raises(DamagedError):
            read_record(data, 0, other)


def golden_batch(name: str) -> Batch:
    facts, data = read_golden(name)
    return read_batch(data, 0, facts["stream"].encode())


def test_a_batch_says_what_was_written() -> None:
    batch = golden_batch("batch")
    records: list[Record] = [record for _, record in batch.records]
    assert [(record.sequence, record.fields) for record in records] == [(1_000, EPOCH_START), (1_001, MESSAGE)]
    assert (batch.is_held, batch.is_witness, batch.is_seal) == (True, False, False)
    expected = {"epoch": 3, "trusted_ms": NOW + 123, "chain_before": 0x0123_4567, "durability": 1, "segment": 7}
    assert {name: batch.header[name] for name in expected} == expected
    assert location(batch.header["synced"]) == ("segment", 6, 4_096)
    assert location(batch.header["committed"]) == ("segment", 7, 8_192)
    assert batch.next_sequence == 1_002


def test_a_witness_and_a_seal_move_neither_chain_nor_sequence() -> None:
    witness, seal = golden_batch("batch_witness"), golden_batch("batch_seal")
    assert (witness.is_witness, witness.is_seal) == (True, False)
    assert (seal.is_witness, seal.is_seal) == (False, True)
    for empty in (witness, seal):
        assert empty.header["chain"] == empty.header["chain_before"]
        assert empty.next_sequence == empty.header["base_sequence"]


@pytest.mark.parametrize("name", ["batch", "batch_with_adoption", "batch_witness", "batch_seal"])
def test_each_flipped_bit_and_each_prefix_of_a_batch_is_found(name: str) -> None:
    facts, data = read_golden(name)
    stream = facts["stream"].encode()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(DamagedError):
            demand_whole(read_batch(bytes(flipped), 0, stream))
    for length in range(len(data)):
        with pytest.raises(DamagedError):
            read_batch(data[:length], 0, stream)


def demand_whole(batch: Batch) -> None:
    for offset, record in batch.records:
        if not record.payload_is_whole:
            raise DamagedError(offset, "a whole payload", "another check")


@pytest.mark.parametrize(
    ("name", "promised"),
    [
        ("identity", {"flags": 0, "promised_epoch": 3, "coordinator": 0, "register_version": 0}),
        (
            "identity_clustered",
            {"flags": 1, "promised_epoch": 4, "coordinator": 0x0123_4567_89AB_CDEF, "register_version": 9_000},
        ),
    ],
)
def test_an_identity_says_what_was_written_and_each_flipped_bit_is_found(name: str, promised: dict[str, int]) -> None:
    _, data = read_golden(name)
    fields = read_identity(data)
    fields.pop("check")
    assert fields == promised | {
        "format_version": 1,
        "stream": b"golden stream 01",
        "timeline": 1,
        "node": b"golden node 0001",
        "segment_bytes": 128 * 1024 * 1024,
    }
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(DamagedError):
            read_identity(bytes(flipped))


def test_a_segment_says_what_was_written() -> None:
    _, data = read_golden("segment")
    segment = read_segment(data)
    assert segment.break_ is None
    assert segment.is_sealed
    assert (segment.header["number"], segment.header["capacity"], len(data)) == (1, 8_192, 8_192)
    assert [(batch.is_witness, batch.is_seal, len(batch.records)) for batch in segment.batches] == [
        (False, False, 1),
        (True, False, 0),
        (False, False, 2),
        (False, True, 0),
    ]
    records = [record for batch in segment.batches for _, record in batch.records]
    assert [(record.sequence, record.kind) for record in records] == [
        (1, "epoch_start"),
        (2, "message"),
        (3, "message"),
    ]
    assert [record.fields for record in records] == [EPOCH_START, MESSAGE, MESSAGE]
    assert location(segment.batches[1].header["synced"]) == ("segment", 1, segment.batches[0].end)


def test_each_flipped_bit_of_a_segment_is_found() -> None:
    _, data = read_golden("segment")
    end = read_segment(data).batches[-1].end
    for bit in [*range(64 * 8), *range(HEADER_BYTES * 8 - 64, end * 8)]:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        assert found_in_segment(bytes(flipped)), f"bit {bit}"


def found_in_segment(data: bytes) -> bool:
    try:
        segment = read_segment(data)
        for batch in segment.batches:
            demand_whole(batch)
    except DamagedError:
        return True
    return segment.break_ is not None


def test_a_schedule_run_says_what_was_written() -> None:
    run = read_run(read_golden("run_schedule")[1])
    assert (run.header["kind"], run.header["number"], run.footer["stream"]) == (1, 12, b"golden stream 01")
    assert [row["sequence"] for row in run.rows] == list(range(1_001, 1_091))
    first, fourth, last = run.rows[0], run.rows[3], run.rows[-1]
    assert (first["due_ms"], first["payload_sequence"], first["attempt"], first["length"]) == (DUE, 1_001, 1, 0)
    assert location(first["location"]) == ("segment", 7, 4_104)
    assert (fourth["due_ms"], fourth["payload_sequence"], fourth["attempt"]) == (DUE + 2, 4, 2)
    assert (last["due_ms"], last["subject"], location(last["location"])[:2]) == (DUE + 3_600_000, 3, ("run", 12))
    assert {sequence: record.fields for sequence, record in run.payloads.items()} == {1_089: MESSAGE, 1_090: MESSAGE}
    assert run.footer["references"] == [(3, 22), (7, 66), (0x8000_000C, 2)]


def test_a_schedule_run_says_what_is_due_of_each_subject_in_each_minute() -> None:
    run = read_run(read_golden("run_schedule")[1])
    # The reader has held the cells against the rows.
    assert run.footer["cells"] == [(3, DUE // 60_000, 3)]
    assert [row["size_and_one"] for row in run.rows[5:8]] == [7, 0, 9]


def test_a_checkpoint_says_how_much_is_due_in_each_minute() -> None:
    body = read_checkpoint(read_golden("checkpoint")[1])["body"]
    pending = sum(subject["pending"] for subject in body["subjects"])
    assert sum(minute["messages"] for minute in body["minutes"]) == pending
    assert [ended["is_known"] for ended in body["ended"]] == [1]


def test_a_checkpoint_says_whose_messages_its_files_have() -> None:
    body = read_checkpoint(read_golden("checkpoint")[1])["body"]
    kinds = ("segments", "schedule_runs", "dispatch_runs")
    told = {kind: [row["file_subjects"] for row in body[kind]] for kind in kinds}
    # Orders, what a group of it gave back, and its dead letter.
    assert told == {"segments": [[1, 2, 3]], "schedule_runs": [[1, 2]], "dispatch_runs": [[1, 3]]}


def test_a_checkpoint_says_what_was_loaded() -> None:
    body = read_checkpoint(read_golden("checkpoint_with_load")[1])["body"]
    name = {"staged_ms": NOW, "nonce": b"golden stream 01"}
    assert body["position"]["next_sequence"] == 47
    assert body["jobs"] == [{"job": (0x0102, 0x0304), "base": 43, "count": 4, "adopted_ms": NOW}]
    assert body["adopted"] == [name]
    (load,) = body["loads"]
    assert load == name | {"run": load["run"], "base": 43, "rows": 4}
    (run,) = [run for run in body["schedule_runs"] if run["number"] == load["run"]]
    assert (run["length"], run["check"], run["created_ms"]) == (12_708, 1_452_304_297, NOW)
    assert body["windows"][-1] == {"first": 43, "length": 4, "run": load["run"], "states": ["pending"] * 4}


def test_what_stands_behind_an_adoption_takes_its_sequences() -> None:
    _, data = read_golden("batch_with_adoption")
    batch = read_batch(data, 0, b"golden stream 01")
    assert [record.kind for _, record in batch.records] == ["message", "adopt"]
    assert (batch.header["count"], batch.next_sequence) == (5, batch.header["base_sequence"] + 5)


def test_a_dispatch_run_says_what_was_written() -> None:
    run = read_run(read_golden("run_dispatch")[1])
    assert (run.header["kind"], run.header["number"]) == (2, 13)
    assert [(row["subject"], row["number"], row["attempt"]) for row in run.rows] == [(3, 41, 1), (3, 42, 1), (8, 0, 2)]
    assert run.footer["subjects"] == [(3, 2, 41, 42), (8, 1, 0, 0)]
    assert run.footer["references"] == [(7, 1), (0x8000_000C, 2)]


def test_a_staged_run_says_what_was_given_by_due_time() -> None:
    facts, data = read_golden("run_staged")
    run = read_run(data)
    assert facts["path"] == f"loads/{NOW:013}-{b'golden stream 01'.hex()}.run"
    assert (run.header["kind"], run.header["number"], run.footer["stream"]) == (3, 0, b"golden stream 01")
    names = run.footer["names"]
    told = [
        (row["due_ms"] - DUE, names[row["subject"] - 1], run.payloads[row["sequence"]].fields["body"])
        for row in run.rows
    ]
    assert told == [(0, "β", b""), (5, "orders", b"soon"), (5, "β", b"too"), (60_000, "orders", b"late")]
    assert run.payloads[1].fields["message_id"] == "order-17"


def test_the_digest_of_a_staged_run_covers_its_bodies() -> None:
    _, data = read_golden("run_staged")
    (at,) = [place for place in range(len(data)) if data.startswith(b"late", place)]
    record = at - 40
    changed = bytearray(data)
    changed[at : at + 4] = b"then"
    changed[record + 8 : record + 12] = crc32(b"then").to_bytes(4, "little")
    header = crc32(bytes(changed[record : record + 12] + changed[record + 16 : record + 40]))
    mark = 3 * 0x9E3779B1 % 2**32
    changed[record + 12 : record + 16] = (header ^ mark).to_bytes(4, "little")
    with pytest.raises(DamagedError, match="expected 0x"):
        read_run(bytes(changed))


@pytest.mark.parametrize("name", ["run_schedule", "run_dispatch", "run_staged"])
def test_each_flipped_bit_of_a_run_is_found(name: str) -> None:
    _, data = read_golden(name)
    trailer, _ = read_footer(data)
    rows_and_payloads, ends = range(0, trailer["footer_offset"], 3), range(trailer["footer_offset"], len(data))
    for byte in (*rows_and_payloads, *ends):
        for bit in range(8) if byte in ends else [byte % 8]:
            flipped = bytearray(data)
            flipped[byte] ^= 1 << bit
            with pytest.raises(DamagedError):
                read_run(bytes(flipped))


def test_a_checkpoint_says_what_was_written() -> None:
    checkpoint = read_checkpoint(read_golden("checkpoint")[1])
    body = checkpoint["body"]
    assert (checkpoint["format_version"], checkpoint["number"], checkpoint["stream"]) == (1, 1, b"golden stream 01")
    assert (body["position"]["next_sequence"], body["position"]["trusted_ms"]) == (42, NOW)
    assert [body[name] for name in ("voided", "next_group", "next_consumer", "next_run")] == [1, 6, 3, 3]
    assert [(epoch["epoch"], epoch["first_sequence"]) for epoch in body["epochs"]] == [(1, 1)]
    assert body["ended_groups"] == [{"subject": 1, "name": "audit", "offset": 0}]
    (window,) = body["windows"]
    letters = {"nothing": "-", "pending": "p", "dispatched": "d", "cancelled": "c"}
    assert (window["first"], window["run"]) == (1, 2)
    assert "".join(letters[state] for state in window["states"]) == "------ddddpc------p-ddd---d-d--p-pp---p-d"
    assert body["moves"] == [
        {"target": 13, "due_ms": NOW + 120_000, "sequence": 31, "is_relative": 1, "delay_ms": 120_000, "age_ms": 0},
        {"target": 31, "due_ms": NOW + 43_200_000, "sequence": 32, "is_relative": 0, "delay_ms": 0, "age_ms": 0},
    ]
    assert [body[name] for name in ("holes", "run_holes", "jobs", "adopted", "loads")] == [[]] * 5
    assert (body["floor"], [segment["segment"] for segment in body["segments"]]) == (2, [2])
    assert [run["number"] for run in body["schedule_runs"] + body["dispatch_runs"]] == [2, 1]


def test_a_checkpoint_says_what_becomes_of_subjects_groups_and_consumers() -> None:
    body = read_checkpoint(read_golden("checkpoint")[1])["body"]
    empty = {"finished_below": 0, "listed_from": 0, "gone_below": 0, "gone": []}
    empty |= {"ended_before": 0, "expired": 0, "expired_before_ms": 0}
    gone = {"gone": [{"first": 3, "end": 4}, {"first": 5, "end": 6}], "expired": 1, "expired_before_ms": NOW + 1}
    assert body["subjects"] == [
        empty | {"number": 1, "name": "orders", "next": 9, "pending": 5} | gone,
        empty | {"number": 2, "name": "%RETRY%orders%billing", "next": 0, "pending": 1},
        empty | {"number": 3, "name": "%DEAD_RETRY%orders%billing", "next": 1, "pending": 0},
    ]
    assert {group["consumer_ended_ms"] for group in body["groups"]} == {0}, "nobody stopped consuming"
    billing, retries, dead_letters, mail = body["groups"]
    assert (billing["start"], billing["cursor"], billing["done_below"]) == (0, 5, 0)
    assert billing["done"] == [{"first": 1, "end": 6}]
    assert (retries["number"], retries["subject"], retries["name"]) == (3, 2, "billing")
    assert (dead_letters["number"], dead_letters["subject"], dead_letters["name"]) == (4, 3, "billing")
    assert [(worker["name"], worker["bits"]) for worker in billing["consumers"]] == [("worker-1", 0)]
    assert [mail[name] for name in ("number", "subject", "name", "start", "reserved_number")] == [5, 1, "mail", 7, 71]
    held = [{"offset": 0, "number": 7, "deliveries": 1}]
    offsets = {"next_offset": 1, "reserved_offset": 64}
    assert mail["consumers"] == [
        {"number": 2, "name": "host-7@@0a1b", "bits": 3, "seen_ms": NOW, "held": held} | offsets
    ]


def test_a_checkpoint_says_keys_ids_and_what_recurs() -> None:
    body = read_checkpoint(read_golden("checkpoint")[1])["body"]
    first = {"due_ms": NOW + 50_000, "sequence": 34, "subject": 1, "size": 5}
    second = {"due_ms": NOW + 70_000, "sequence": 35, "subject": 1, "size": 9}
    assert body["keys"] == [first | {"name": (0x0102, 0x0304)}, second | {"name": (0x090A, 0x0B0C)}]
    assert body["ids"] == [first | {"name": (0x0506, 0x0708), "until_ms": NOW + 600_000, "noted": 34}]
    third = {"due_ms": NOW, "sequence": 41, "subject": 1, "size": 15, "until_ms": NOW + 600_000, "noted": 41}
    rows = [third | {"name": (0x0D0E, 0x0F10)}]
    assert body["dispatched_keys"] == {"window_ms": 600_000, "keys_max": 1_000, "rows": rows}
    series = {"subject": 1, "rule": "30 9 * * mon-fri", "zone": "Europe/Berlin", "catch_up": 1, "body": b"again"}
    waits = {"last_due_ms": NOW + 40_000, "pending_due_ms": NOW + 40_000, "pending_sequence": 39, "meta": b""}
    owes = {"last_due_ms": NOW, "pending_due_ms": 0, "pending_sequence": 0, "meta": b"meta"}
    assert body["series"] == [
        series | waits | {"number": 36, "name": "dünning", "on_expiry": 0},
        series | owes | {"number": 37, "name": "owes one", "on_expiry": 1, "expires_after_ms": 60_000},
    ]


def test_each_flipped_bit_and_each_prefix_of_a_checkpoint_is_found() -> None:
    _, data = read_golden("checkpoint")
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(DamagedError):
            read_checkpoint(bytes(flipped))
    for length in range(len(data)):
        with pytest.raises(DamagedError):
            read_checkpoint(data[:length])


def test_a_receipt_says_what_was_written_and_proves_itself() -> None:
    facts, data = read_golden("receipt")
    nonce = bytes.fromhex(facts["nonce"])
    assert parse_receipt(facts["text"]) == data
    assert len(facts["text"]) == 69
    fields = read_receipt(data)
    check = fields.pop("check")
    assert fields == {
        "version": 1,
        "stream": b"golden stream 01",
        "epoch": 3,
        "sequence": 7,
        "due": DUE,
        "subject": 3,
        "size": 42,
    }
    assert check == receipt_check(data, nonce)
    assert check != receipt_check(data, bytes(16))


def test_the_keyed_hash_is_the_one_its_authors_publish() -> None:
    assert siphash_2_4(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5
    assert siphash_2_4(bytes(range(16)), b"") == 0x726FDB47DD0E0E31


def test_repeated_lines_of_a_golden_file_are_zeros() -> None:
    assert parse("# a: b: c\nff\n00\n* 2\n01\n") == ({"a": "b: c"}, b"\xff\x00" + bytes(64) + b"\x01")
