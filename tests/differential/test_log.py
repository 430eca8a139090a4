"""A segment that was changed: the second reader and the core's scan find the same commits, up to the same break.

They differ where only one of them looks: the core leaves out a commit with a damaged payload that nobody vouched for,
and does not judge padding; the second reader refuses padding that is not zero and kinds that it does not know.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import event, given, settings

from differential.readers import Core, changed, corpus
from format_reader.golden import read_golden
from format_reader.records import KINDS
from format_reader.segments import HEADER_BYTES, Segment, read_segment

SPARE = bytes(1_024)
HEADER = read_golden("segment")[1][:HEADER_BYTES]
# Places and words of what only the second reader refuses.
STRICTER = ("zero padding", "a known kind")


def read(content: bytes) -> Segment:
    return read_segment(HEADER + content + SPARE)


def facts(segment: Segment) -> list[Any]:
    return [
        [
            batch.offset,
            batch.header["base_sequence"],
            [[one.kind, one.payload_is_whole, one.payload.hex()] for _, one in batch.records],
        ]
        for batch in segment.batches
        if batch.records
    ]


def compare(core: Core, content: bytes) -> str:
    ours, segment = core.read("log", content), read(content)
    theirs = facts(segment)
    if ours is None:
        assert segment.break_ is not None, content.hex()
        return "refused"
    _, _, batches = ours
    told = [
        [offset, base, [[KINDS[kind][0], whole, payload] for kind, whole, _, payload in records]]
        for offset, base, records in batches
        if all(kind in KINDS for kind, *_ in records)
    ]
    both = min(len(told), len(theirs))
    assert told[:both] == theirs[:both], content.hex()
    if len(theirs) > both:
        assert any(not whole for _, whole, _ in theirs[both][2]), f"only the second reader takes {theirs[both]}"
    if len(batches) > both:
        assert segment.break_ is not None
        assert segment.break_.expected in STRICTER, f"only the core takes {batches[both]}: {segment.break_}"
    return "the same" if len(told) == len(theirs) else "one reads further"


def test_both_read_the_logs_of_the_corpus_alike(core: Core) -> None:
    found = [compare(core, one[1:]) for one in corpus("batch_scanner")]
    assert "the same" in found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(changed([one[1:] for one in corpus("batch_scanner")]))
def test_both_read_any_log_alike(core: Core, content: bytes) -> None:
    event(compare(core, content))


def test_every_flipped_byte_breaks_both_at_one_place(core: Core) -> None:
    whole = read_golden("segment")[1][HEADER_BYTES:].rstrip(b"\0")
    for at in range(len(whole)):
        compare(core, whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])


def test_a_difference_is_seen(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_golden("segment")[1][HEADER_BYTES:]
    assert compare(core, whole) == "the same"
    monkeypatch.setitem(KINDS, 1, ("another", KINDS[1][1]))
    real = read(whole)
    monkeypatch.undo()
    assert any(record.kind == "another" for batch in real.batches for _, record in batch.records)
    monkeypatch.setattr(sys.modules[__name__], "read", lambda _: real)
    with pytest.raises(AssertionError):
        compare(core, whole)
