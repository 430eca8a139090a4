"""Facts that a job cannot see, since they were retired before."""

from __future__ import annotations

from delaymq.tables import Snapshot

__all__ = ["retired_from"]


def retired_from(snapshot: Snapshot, first: int) -> tuple[tuple[int, int], ...]:
    """Ranges of facts from `first` on that are not kept any more, below the log or in holes of it.

    Returns:
        The first sequence of each range and the one after its last, in order.
    """
    stretches = ((1, snapshot.first_sequence), *snapshot.retired)
    return tuple((max(begin, first), end) for begin, end in stretches if max(begin, first) < end)
