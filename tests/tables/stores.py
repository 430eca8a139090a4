"""Stores of the kinds that tables are read of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import delaymq
from delaymq import Publish

SUBJECTS = ("order.timeout", "mail", "größe")
SEGMENT_BYTES = 64 * 1024
FAR_SECONDS = 3_600
HOLLOW_TURNS = 640

WRITES = """
import sys
import delaymq
from pathlib import Path
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
store = delaymq.open(folder, segment_bytes=64 * 1024, durability=sys.argv[3])
for number in range(limit):
    store.publish_many("live", [b"%d " % number + bytes(number % 300)] * 5, 3600)
    if number % 50 == 10:
        store.checkpoint()
    if number == 60:
        print("under way", flush=True)
sys.stdin.read()
"""

CHANGES = """
import sys
import time
import delaymq
place, turns = sys.argv[1:]
is_served = place.startswith("delaymq:")
store = delaymq.connect(place) if is_served else delaymq.open(place, segment_bytes=64 * 1024)
given = store.subscribe("given", group="g")
for turn in range(int(turns)):
    store.publish_many("given", [b"now %d" % turn] * 2, 0)
    receipts = store.publish_many("far", [b"%d " % turn + bytes(turn % 300)] * 5, 3600 + turn % 7)
    store.publish("far", b"soon %d" % turn, delay=0.01)
    store.cancel(receipts[0])
    store.move(receipts[1], delay=7200)
    store.publish("keyed", b"%d" % turn, delay=3600, key="k%d" % (turn % 3), if_exists="replace")
    if turn % 5 == 3:
        store.move_key("keyed", "k%d" % (turn % 3), delay=5000)
    if turn % 7 == 4:
        store.cancel_key("keyed", "k%d" % (turn % 3))
    given.get(5).ack()
    given.get(5).nack(3600)
    if turn % 20 == 10 and not is_served:
        store.checkpoint()
    if turn == 20:
        print("under way", flush=True)
    time.sleep(0.005)  # who reads has a share of the machine
"""


def hollow(folder: Path, *, is_busy: bool = False) -> Path:
    """What nobody takes lies between what was acknowledged, of which more than 64 MiB were given back. Where it
    `is_busy`, some of the former is given back by its group, and some that is far is moved.
    """
    batch_rows, body = 50, bytes(5_000)
    with (
        delaymq.open(folder, durability="os", segment_bytes=4 << 20, keep_finished=0) as store,
        store.subscribe("slow", group="s") as slow,
    ):
        with store.subscribe("noise", group="q") as quick:
            for turn in range(HOLLOW_TURNS):
                rows = [Publish("noise", body, delay=0)] * batch_rows
                if turn % 20 == 0:
                    store.publish("slow", b"%d" % turn)
                receipts = store.publish_many(
                    [*rows, Publish("far", b"", delay=FAR_SECONDS)] if turn % 10 == 5 else rows
                )
                if is_busy and turn % 20 == 5:
                    store.move(receipts[-1], delay=2 * FAR_SECONDS)
                if is_busy and turn % 40 == 0:
                    slow.nack(next(iter(slow.batches(1, wait=5))), FAR_SECONDS)
                left = batch_rows
                while left:
                    batch = next(iter(quick.batches(left, wait=5)))
                    quick.ack(batch)
                    left -= len(batch)
            quick.flush()
        for _ in range(3):
            store.publish("other", b"")
            store.checkpoint()
    return folder


def rich(folder: Path) -> Path:
    """A store with everything that publishers and operators do, in several segments and two openings."""
    for turn in range(2):
        with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
            rows = [
                Publish(
                    SUBJECTS[place % 3],
                    f"{turn}/{place} ".encode() + bytes(place % 251),
                    delay=0 if place % 4 == 0 else FAR_SECONDS + place,
                    tags=("a", "β")[: place % 3],
                    attributes={'quote"': "line\n", "k": "wért"} if place % 5 == 0 else None,
                    message_id=f"id-{turn}-{place}" if place % 2 else None,
                )
                for place in range(400)
            ]
            receipts = [receipt for at in range(0, 400, 100) for receipt in store.publish_many(rows[at : at + 100])]
            for receipt in receipts[1::40]:
                store.cancel(receipt)
            for receipt in receipts[2::40]:
                store.move(receipt, delay=2 * FAR_SECONDS)
            for key in ("k", "l", "k"):
                store.publish(SUBJECTS[0], b"keyed", delay=FAR_SECONDS, key=key, if_exists="replace")
            store.publish(SUBJECTS[1], b"", delay=FAR_SECONDS, message_id="once", deduplicate=True)
            store.recur(SUBJECTS[1], b"again", name=f"daily-{turn}", every=FAR_SECONDS)
            if turn == 0:
                store.checkpoint()
    return folder


def writing(folder: Path, batches: int, durability: str = "disk") -> subprocess.Popen[str]:
    """A process that publishes to a store and has it open, behind its first 60 batches; it ends with its input."""
    return _begun(WRITES, str(folder), str(batches), durability)


def changing(place: str, turns: int = 1_000_000) -> subprocess.Popen[str]:
    """A process that does to a store in a folder, or at a server, all that clients do, and is some turns into it."""
    return _begun(CHANGES, place, str(turns))


def _begun(script: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n"
    return process
