"""Random histories of a store: publishes, cancels, moves, time that passes, consumers, retention, openings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from hypothesis import strategies as st

import delaymq
from delaymq import Message, Publish, Receipt, Subscription
from delaymq.durations import OnExpiry
from delaymq.testing import Clock

SUBJECTS = ("a", "größe", "c")
GROUPS = ("g", "h")
SEGMENT_BYTES = 64 * 1024
DELAYS = (0, 1, 30, 600, 601, 7_200)

Step = tuple[str, int, int]


def histories(*, is_consumed: bool = True) -> st.SearchStrategy[list[Step]]:
    """Steps, each a name and two numbers that say which and how many."""
    names = ["publish", "publish", "keyed", "cancel", "move", "by_key", "advance", "checkpoint", "reopen"]
    if is_consumed:
        names += ["ack", "nack", "bury", "redrive", "expire", "expiring", "remove_group", "recur", "sift"]
    step = st.tuples(st.sampled_from(names), st.integers(0, 40), st.integers(0, 300))
    return st.lists(step, min_size=3, max_size=25)


class World:
    """A store that a history is told to."""

    def __init__(self, folder: Path, keep_finished: timedelta = timedelta(days=3)) -> None:
        self.folder = folder
        self.clock = Clock()
        self.keep_finished = keep_finished
        self.receipts: list[Receipt] = []
        self.store = self._open()

    def _open(self) -> delaymq.Store:
        return delaymq.open(
            self.folder,
            clock=self.clock,
            durability="os",
            segment_bytes=SEGMENT_BYTES,
            keep_finished=self.keep_finished,
        )

    def tell(self, history: list[Step]) -> None:
        """Does all of it, and closes the store."""
        for name, which, count in history:
            step: Callable[[int, int], None] = getattr(self, f"_{name}")
            step(which, count)
        self.store.close()

    def _publish(self, which: int, count: int) -> None:
        subject = SUBJECTS[which % 3]
        rows = [
            Publish(
                subject,
                f"{which}/{place} ".encode() + bytes(count * place % 211),
                delay=DELAYS[(which + place) % 6] + place % 3,
                tags=("t",)[: place % 2],
                attributes={"k": "wért"} if place % 5 == 0 else None,
                message_id=f"id-{which}-{place}" if place % 2 else None,
            )
            for place in range(count % 60 + 1)
        ]
        self.receipts += self.store.publish_many(rows)

    def _keyed(self, which: int, count: int) -> None:
        if_exists = ("replace", "keep")[count % 2]
        self.store.publish(
            SUBJECTS[which % 3],
            b"keyed",
            delay=DELAYS[count % 6],
            key=f"k{which % 4}",
            if_exists=if_exists,  # type: ignore[arg-type]
        )
        self.store.publish(
            SUBJECTS[count % 3], b"once", delay=DELAYS[which % 6], message_id=f"m{which % 5}", deduplicate=True
        )

    def _cancel(self, which: int, count: int) -> None:
        for receipt in self.receipts[which :: count + 2]:
            self.store.cancel(receipt)

    def _move(self, which: int, count: int) -> None:
        for receipt in self.receipts[which :: count + 5]:
            moved = self.store.move(receipt, delay=DELAYS[which % 6])
            if moved.receipt is not None:
                self.receipts.append(moved.receipt)

    def _by_key(self, which: int, count: int) -> None:
        subject, key = SUBJECTS[which % 3], f"k{count % 4}"
        command_id = None if which % 3 else f"c{count % 3}"
        if which % 2:
            self.store.cancel_key(subject, key, command_id=command_id)
        else:
            self.store.move_key(subject, key, delay=DELAYS[count % 6], command_id=command_id)

    def _advance(self, which: int, count: int) -> None:
        self.clock.advance(which * which * 5 + count)

    def _checkpoint(self, _which: int, _count: int) -> None:
        self.store.checkpoint()

    def _reopen(self, _which: int, _count: int) -> None:
        self.store.close()
        self.store = self._open()

    def _recur(self, which: int, _count: int) -> None:
        self.store.recur(SUBJECTS[which % 3], b"again", name=f"n{which % 2}", every=900, if_exists="replace")

    def _consume(
        self, which: int, count: int, settle: Callable[[Subscription, list[Message]], None], tags: tuple[str, ...] = ()
    ) -> None:
        with self.store.subscribe(
            SUBJECTS[which % 3], group=GROUPS[which % 2], in_flight_max=50, tags=tags
        ) as subscription:
            for _ in range(count % 3 + 1):
                messages = next(subscription.batches(20, wait=0), [])
                # One in a while is left in the hand, and comes again.
                settle(subscription, messages[: 1 + len(messages) * 7 // 8])
                subscription.flush()

    def _ack(self, which: int, count: int) -> None:
        self._consume(which, count, lambda subscription, messages: subscription.ack(messages))

    def _sift(self, which: int, count: int) -> None:
        """Only messages with a tag are received; some of them are given back."""
        if count % 2:
            self._consume(which, count, lambda subscription, messages: subscription.ack(messages), ("t",))
        else:
            self._consume(which, count, lambda subscription, messages: subscription.nack(messages, 30), ("t",))

    def _nack(self, which: int, count: int) -> None:
        delay = DELAYS[count % 6]
        self._consume(which, count, lambda subscription, messages: subscription.nack(messages, delay))

    def _bury(self, which: int, count: int) -> None:
        reason = "expired" if count % 4 == 3 else "größe"  # the words of a consumer are no expiry
        self._consume(which, count, lambda subscription, messages: subscription.dead_letter(messages, reason))

    def _redrive(self, which: int, count: int) -> None:
        with contextlib.suppress(delaymq.InvalidArgument):
            self.store.redrive(SUBJECTS[which % 3], GROUPS[which % 2], count % 7 + 1)

    def _expire(self, which: int, count: int) -> None:
        with contextlib.suppress(delaymq.InvalidArgument):
            self.store.expire(SUBJECTS[which % 3], older_than=count)

    def _expiring(self, which: int, count: int) -> None:
        """Messages that are of use for a short time, some of which become dead letters."""
        then: OnExpiry = "dead_letter" if count % 2 else "drop"
        delay = DELAYS[which % 6]
        rows = [Publish(SUBJECTS[which % 3], b"short", delay, expires=1, on_expiry=then) for _ in range(count % 5 + 1)]
        self.receipts.extend(self.store.publish_many(rows))
        self.clock.advance(timedelta(seconds=which % 2) + timedelta(milliseconds=1))

    def _remove_group(self, which: int, _count: int) -> None:
        with contextlib.suppress(delaymq.InvalidArgument):
            self.store.remove_group(SUBJECTS[which % 3], GROUPS[which % 2])
