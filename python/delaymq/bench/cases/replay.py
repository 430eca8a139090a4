"""Messages a second of a group that reads finished messages again; the limit is a group whose backlog they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from delaymq import _core
from delaymq.bench.cases.backlog import BODY_BYTES, CONSUMERS, IN_FLIGHT_MAX, READY, READY_QUICK
from delaymq.bench.interleaving import runs_of
from delaymq.bench.marks import at_most
from delaymq.bench.row import Case, Figures, Pairs
from delaymq.bench.rust import own_process

START_MS_MOST = 50.0
DELAY_MS_MAX = 4_000  # of delayed messages: some are in runs before they are due, some are not
STORES = 2  # one with finished messages, and one with a backlog of as many


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """Two rows: messages that were due when they were published, and delayed ones.

    In one store, a group has finished all messages; in another one, groups have them before them.

    Args:
        quick: Fewer messages, one run.
        scale: The number of messages, which overrides `quick`; progress is printed to standard error.
    """
    ready = scale or (READY_QUICK if quick else READY)
    return [
        Case(
            bench="replay",
            unit="messages/s",
            durability="disk",
            n=ready,
            pairs=_read_again(ready, delay_ms_max, runs_of(quick), tells=scale is not None),
            limit_words="as many messages that nobody has pulled, drained as by `backlog`",
            detail={
                "ready": ready,
                "delay_ms_max": delay_ms_max,
                "body_bytes": BODY_BYTES,
                "consumers": CONSUMERS,
                "from": "rust",
            },
            must=at_most(start_ms=START_MS_MOST),
        )
        for delay_ms_max in (0, DELAY_MS_MAX)
    ]


def _read_again(ready: int, delay_ms_max: int, runs: int, *, tells: bool) -> Pairs:
    def pairs(folder: Path) -> Iterator[tuple[Figures, Figures]]:
        finished, unpulled = folder / "finished", folder / "unpulled"
        numbers = {"messages": ready, "tells": int(tells)}
        fills = {**numbers, "body_bytes": BODY_BYTES, "delay_ms_max": delay_ms_max}
        drains = {**numbers, "disk": 1, "in_flight_max": IN_FLIGHT_MAX, "consumers": CONSUMERS}
        own_process("backlog_fill", finished, groups=1, **fills)
        own_process("backlog", finished, group=0, **drains)
        own_process("backlog_fill", unpulled, groups=runs, **fills)
        for group in range(runs):
            _core.measure("restart_forget", str(finished), {})
            ours = own_process("replay", finished, group=group + 1, **drains)
            _core.measure("restart_forget", str(unpulled), {})
            yield ours, own_process("backlog", unpulled, group=group, **drains)

    return pairs
