"""Holes as the second reader knows them: it passes what a checkpoint names, whatever stands there, and refuses what
does not fit."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from format_reader.batches import Batch
from format_reader.checkpoints import read_checkpoint
from format_reader.golden import GOLDEN, parse, read_golden
from format_reader.layout import FORMAT, DamagedError, crc32, padded
from format_reader.runs import Run, read_run
from format_reader.segments import Hole, read_segment

Place = dict[str, Any]
SEGMENT = 1


def behind(batch: Batch) -> Place:
    header = batch.header
    return {"end": SEGMENT << 32 | batch.end, "next_sequence": batch.next_sequence} | {
        name: header[name] for name in ("chain", "epoch", "trusted_ms")
    }


def hollowed(begin: Place, end: Place) -> bytes:
    """The golden segment with zeros from one place to the other."""
    _, data = read_golden("segment")
    first, last = (place["end"] & 0xFFFF_FFFF for place in (begin, end))
    return data[:first] + bytes(last - first) + data[last:]


def test_a_hole_is_passed_whatever_stands_there() -> None:
    whole = read_segment(read_golden("segment")[1])
    begin, end = behind(whole.batches[1]), behind(whole.batches[2])
    data = hollowed(begin, end)
    assert not read_segment(data).is_sealed, "zeros are the end of a log"
    for bytes_there in (data, read_golden("segment")[1]):
        found = read_segment(bytes_there, [Hole(begin, end)])
        assert found.break_ is None
        assert found.is_sealed
        others = [batch.offset for batch in whole.batches if batch.offset != whole.batches[2].offset]
        assert [batch.offset for batch in found.batches] == others


@pytest.mark.parametrize("name", ["chain", "next_sequence"])
def test_a_hole_that_does_not_fit_on_either_side_is_a_break(name: str) -> None:
    whole = read_segment(read_golden("segment")[1])
    begin, end = behind(whole.batches[1]), behind(whole.batches[2])
    data = hollowed(begin, end)
    for wrong in (Hole(begin | {name: begin[name] + 1}, end), Hole(begin, end | {name: end[name] + 1})):
        assert read_segment(data, [wrong]).break_ is not None


def test_a_checkpoint_says_where_holes_are() -> None:
    position = read_checkpoint(read_golden("checkpoint")[1])["body"]["position"]
    first = position["end"] >> 32 << 32 | 4_096
    begin = position | {"end": first, "next_sequence": 1, "chain": 7}
    end = position | {"end": first + 64, "next_sequence": 3}
    assert read_checkpoint(with_holes((begin, end)))["body"]["holes"] == [{"from": begin, "to": end}]
    later = (begin | {"end": first + 72, "next_sequence": 4}, end | {"end": first + 80, "next_sequence": 5})
    assert len(read_checkpoint(with_holes((begin, end), later))["body"]["holes"]) == 2
    refused = [
        ((end, begin),),
        ((begin | {"end": first - 8}, end),),
        ((begin, end | {"next_sequence": 1}),),
        ((begin, end | {"end": position["end"] + 8}),),
        ((begin | {"end": first + 4}, end),),
        ((begin, end), (end, end | {"end": first + 72, "next_sequence": 9})),
    ]
    for holes in refused:
        with pytest.raises(DamagedError):
            read_checkpoint(with_holes(*holes))


def a_run() -> bytes:
    """The run of a golden store that has the payloads of five messages."""
    text = (GOLDEN / "stores" / f"format_{FORMAT}.hex").read_text("utf-8")
    _, _, lines = text.partition("# path: runs/0000000004.run\n")
    return parse(lines.partition("# path: ")[0])[1]


def borders(run: Run) -> list[int]:
    """Where the copied records of a run begin, and where the last one ends."""
    starts = [row["location"] & 0xFFFF_FFFF for row in run.rows if row["sequence"] in run.payloads]
    return [*starts, starts[-1] + padded(list(run.payloads.values())[-1].length)]


def test_payloads_in_holes_of_a_run_are_passed_whatever_stands_there() -> None:
    data = a_run()
    whole = read_run(data)
    at = borders(whole)
    assert len(at) == 6
    hole = (at[1], at[4])
    punched = data[: hole[0]] + bytes(hole[1] - hole[0]) + data[hole[1] :]
    for bytes_there in (data, punched):
        found = read_run(bytes_there, [hole])
        assert list(found.payloads) == [list(whole.payloads)[place] for place in (0, 4)]
        assert (found.rows, found.footer) == (whole.rows, whole.footer)


def test_a_punched_payload_that_no_hole_names_is_damage() -> None:
    data = a_run()
    at = borders(read_run(data))
    punched = data[: at[1]] + bytes(at[4] - at[1]) + data[at[4] :]
    for holes in ([], [(at[1], at[3])], [(at[2], at[4])], [(at[1], at[2]), (at[3], at[4])]):
        with pytest.raises(DamagedError):
            read_run(punched, holes)


def test_a_hole_of_a_run_has_whole_records_and_nothing_else() -> None:
    data = a_run()
    at = borders(read_run(data))
    for hole in ((at[1] + 8, at[4]), (at[1], at[4] - 8), (at[1], at[-1] + 8), (4_096, at[0])):
        with pytest.raises(DamagedError):
            read_run(data, [hole])


def with_holes(*holes: tuple[Place, Place]) -> bytes:
    """The golden checkpoint with these holes, its checks made right."""
    _, data = read_golden("checkpoint")
    assert data[-24:] == bytes(24), "it ends with the counts of its holes, those of segments first, and of its loads"
    fields = ("end", "chain", "next_sequence", "epoch", "trusted_ms")
    rows = (struct.pack("<QIQIQ", *(place[name] for name in fields)) for hole in holes for place in hole)
    body = data[64:-24] + struct.pack("<Q", len(holes)) + b"".join(rows) + bytes(16)
    header = data[:40] + struct.pack("<Q", len(body)) + data[48:56] + struct.pack("<I", crc32(body))
    return header + struct.pack("<I", crc32(header)) + body
