from __future__ import annotations

import os

from delaymq.demo.frames import Deliveries, FrameReader, FrameWriter, Kind


def test_frames_come_whole_however_the_bytes_are_cut() -> None:
    ours, theirs = os.pipe()
    writer = FrameWriter(theirs)
    deliveries = Deliveries.empty()
    deliveries.add(7, 1_000, redelivered=True, altered=False)
    deliveries.add(8, 2_000, redelivered=False, altered=True)
    writer.send_numbers(Kind.BEGUN, [1, 2, 3])
    writer.send(Kind.DELIVERED, deliveries.to_bytes(), time_us=5)
    writer.send_json(Kind.RECEIPTS, [[1, "dmq1-x"]])
    os.close(theirs)
    sent = os.read(ours, 1 << 16)
    os.close(ours)
    reader = FrameReader()
    frames = [frame for at in range(len(sent)) for frame in reader.feed(sent[at : at + 1])]
    assert [frame.kind for frame in frames] == [Kind.BEGUN, Kind.DELIVERED, Kind.RECEIPTS]
    assert list(frames[0].numbers()) == [1, 2, 3]
    assert frames[1].time_us == 5
    assert Deliveries.from_bytes(frames[1].payload) == deliveries
    assert frames[2].json() == [[1, "dmq1-x"]]


def test_a_frame_cut_short_is_as_if_never_sent() -> None:
    ours, theirs = os.pipe()
    FrameWriter(theirs).send_numbers(Kind.ACKED, range(100))
    os.close(theirs)
    sent = os.read(ours, 1 << 16)
    os.close(ours)
    assert not [frame for cut in range(len(sent)) for frame in FrameReader().feed(sent[:cut])]
