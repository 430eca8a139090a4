"""Cancels and moves a second of messages of any age, and the disk space of pending and cancelled messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved, runs_of
from delaymq.bench.marks import at_least, at_most
from delaymq.bench.row import Case, Figures, Pairs
from delaymq.bench.rust import in_process, measurement, own_process

PENDING = 2_000_000
PENDING_QUICK = 50_000
CHANGES_MAX = 500_000
BATCH = 1000
RECORD_BYTES = {"cancel": 0, "move": 16, "cancel_keys": 32, "move_keys": 32}  # more than a record without a body
KEYS_MAX = 10_000_000  # keys are in memory
CHANGES_PER_S_LEAST = 100_000
ROOM_BYTES_MOST = {"pending": 260, "cancelled": 306}  # per pending message; per message left, twice that of one
DISK_BYTES_EACH = 340  # space of a message in the log, in a run, and in the run of a merge
DISK_BYTES_PREPARED = 2 << 30


def disk_bytes(pending: int) -> int:
    """The disk space that this many pending messages of 64 B need while they are stored, in bytes."""
    return DISK_BYTES_PREPARED + pending * DISK_BYTES_EACH


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """A row for cancels and one for moves, by receipts and by keys; half of the messages are in runs.

    Args:
        quick: Fewer messages, one run.
        scale: The number of pending messages, which overrides `quick`; at most ten million with keys.
    """
    return [_case(call, quick, scale) for call in RECORD_BYTES]


def _case(call: str, quick: bool, scale: int | None) -> Case:
    by_key = call.endswith("_keys")
    pending = scale or (PENDING_QUICK if quick else PENDING)
    if by_key:
        pending = min(pending, KEYS_MAX)
    changes = min(pending // 2, CHANGES_MAX)
    asked = {"moves": int(call.startswith("move")), "by_key": int(by_key)}
    numbers = {**asked, "pending": pending, "changes": changes, "batch": BATCH, "disk": 1}
    return Case(
        bench="changes",
        unit="messages/s",
        durability="disk",
        n=changes,
        pairs=interleaved(
            # In a new process, the memory of keys can be measured.
            in_process("changes", **numbers) if by_key else measurement("changes", **numbers),
            measurement("append_limit", messages=changes, batch=BATCH, body_bytes=RECORD_BYTES[call], disk=1),
            quick=quick or scale is not None,
        ),
        limit_words="records of the same size, 1,000 in each pwrite, a sync behind each",
        detail={"call": call, "pending": pending, "in_a_call": BATCH, "from": "rust"},
        must=at_least(value=CHANGES_PER_S_LEAST),
    )


def cases_room(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """Disk bytes for each pending message, and for each that is left after 19 of 20 were cancelled, from the same runs.

    Args:
        quick: Fewer messages, one run.
        scale: The number of pending messages, which overrides `quick`.
    """
    pending = scale or (PENDING_QUICK if quick else PENDING)
    rooms = Rooms(pending, 1 if scale is not None else runs_of(quick))
    return [
        Case(
            bench="room",
            unit="B",
            durability="disk",
            n=pending,
            pairs=rooms.of(figure),
            limit_words="a record and a row for each, in one file",
            higher_is_better=False,
            detail={"pending": pending, "moment": moment, "body_bytes": 64, "from": "rust"},
            must=at_most(value=ROOM_BYTES_MOST[moment]),
        )
        for moment, figure in (("pending", "value"), ("cancelled", "cancelled"))
    ]


class Rooms:
    """Stores that are filled and emptied, measured on first use."""

    def __init__(self, pending: int, runs: int) -> None:
        self._pending, self._runs = pending, runs
        self._found: list[tuple[Figures, Figures]] = []

    def of(self, figure: str) -> Pairs:
        """The runs with one of their figures as the value."""

        def pairs(folder: Path) -> Sequence[tuple[Figures, Figures]]:
            for number in range(self._runs - len(self._found)):
                ours = own_process("room", folder / f"store-{number}", pending=self._pending, disk=1)
                limits = folder / f"limit-{number}"
                limits.mkdir()
                self._found.append((ours, own_process("room_limit", limits, pending=self._pending)))
            return [({**ours, "value": ours[figure]}, {**limit, "value": limit[figure]}) for ours, limit in self._found]

        return pairs
