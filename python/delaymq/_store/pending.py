"""Queries of the pending messages of a store in this process, and commands on them by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from delaymq import _core
from delaymq._verbs import pending
from delaymq._verbs.calls import Part
from delaymq._verbs.pending import pending_filter
from delaymq.durations import Duration
from delaymq.forecast import Forecast
from delaymq.pending import PAGE, LookedUp, PendingList
from delaymq.receipt import Moved, Outcome, Receipt


class PendingMessages(Part):
    """The methods of `Store` for pending messages: queries, and commands by their keys."""

    _core: _core.Store

    def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, without reading from disk.

        Raises:
            WrongType: `receipt` is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered: no store gave it out.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.look_up(receipt))

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages as of one moment, in the order of their receipts.

        Raises:
            WrongType: `receipts` is not an iterable of `Receipt`.
            ForeignReceipt: Another store gave out receipt `index`.
            InvalidArgument: A receipt was altered.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.look_up_many(receipts))

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> PendingList:
        """Lists pending messages in order of due time and sequence, while the store works on.

        ::

            for one in store.pending(prefix="order."):
                print(one.due, one.subject, one.receipt)

        Args:
            subject: Only messages of this subject. An unknown subject has none.
            prefix: Only subjects whose names begin with this. Without `subject` and `prefix`, all subjects that users
                publish to; `"%"` lists the retries of groups, `""` everything.
            due_from: Only messages due at this time or later, an aware datetime.
            due_before: Only messages due before this time, an aware datetime.
            after: Only messages behind the cursor of an earlier list (its `after`), also of before a restart.

        Returns:
            An iterator that fetches a page at a time.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A time is naive, the range is reversed, both a subject and a prefix are given, the subject
                is empty, or `after` is not a cursor of this store.
            StorageError: The operating system refused to read, during iteration; the iteration can be continued.
            Poisoned, Closed, ForkedProcess: As `publish`, also during iteration.
        """
        reader = _core.pending(self._core, pending_filter(subject, prefix, due_from, due_before), after)
        return PendingList(lambda _: reader.next_page(PAGE), after)

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject. The counts are maintained, so no message is read.

        Args:
            subject: Only this subject; the result is empty if it is unknown.
            prefix: Only subjects whose names begin with this. Without both, all subjects that users publish to.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: Both a subject and a prefix are given, or the subject is empty.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.pending_counts(subject, prefix))

    def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages and bytes that become due in each minute, or each second of an hour.

        The counts are exact. For all subjects together, the store maintains the counts of minutes, so that no message
        is read, however many are pending. For one subject, they are computed from summaries in each file. Seconds are
        counted message by message.

        ::

            for slot in store.forecast().slots:
                print(slot.start, slot.messages, slot.bytes)

        Args:
            subject: Only this subject, which may be the retry subject of a group. Without it, everything.
            due_from: Begins with the minute of this time, an aware datetime. By default with the first pending message,
                overdue ones included; by seconds, from now on.
            due_before: Ends with the minute that contains this time. By default with the last pending message; by
                seconds, after an hour, which is the maximum.
            seconds: True for seconds instead of minutes.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: The store does not have the subject, a time is naive, the range is reversed, or it is
                longer than an hour by seconds.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.forecast(subject, due_from, due_before, seconds=seconds))

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message of a subject that is pending under a key. The answer is durable.

        Args:
            subject: Subject of the message.
            key: Key of the message.
            command_id: Makes the call safe to repeat: for ten minutes the same call with the same id has the first
                answer, whichever message has the key by then. Up to 100 characters, as in a key. It counts among the
                ids of `deduplicate`.

        Returns:
            `DONE`. If no message is pending under the key, `ALREADY_DISPATCHED` for ten minutes after the last one
            became ready, and otherwise `NOT_FOUND`: there was none, it was cancelled, or it is dispatched and
            forgotten.

        Raises:
            WrongType, InvalidArgument: `subject`, `key` or `command_id` is refused; nothing was cancelled.
            NamesFull: There is no room for another id; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.cancel_key(subject, key, command_id))

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages of a subject that are pending under these keys, with one wait for all.

        Args:
            subject: Subject of the messages.
            keys: Their keys. A repeated key is cancelled once; all its places have the same answer.
            command_id: As for `cancel_key`, for each key separately. Each key takes one id.

        Returns:
            The outcome of each key, in the order of `keys`, as `cancel_key` has it.

        Raises:
            WrongType, InvalidArgument: As `cancel_key`; `index` is the refused key, and nothing was cancelled.
            NamesFull: There is no room for more ids; nothing was cancelled. If there are more keys than one batch takes
                (299,000 with segments of the default size), the earlier batches were cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.cancel_keys(subject, keys, command_id))

    def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time. It keeps its key and has a new receipt.

        Args:
            subject: Subject of the message.
            key: Key of the message.
            delay: A timedelta or seconds from now, as for `publish`.
            at: An aware datetime instead; a past time means now.
            command_id: As for `cancel_key`; the repeated answer has the receipt of the first one.

        Returns:
            `DONE` and the new receipt, or `ALREADY_DISPATCHED` or `NOT_FOUND` as `cancel_key` has them. The answer is
            durable.

        Raises:
            WrongType, InvalidArgument, TooLarge: An argument is refused, as by `move`; nothing was moved.
            NamesFull: As `cancel_key`.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.move_key(subject, key, delay, at, command_id))

    def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages of a subject that are pending under these keys another due time, with one wait for all.

        If another message takes a key meanwhile, that key is tried again, with one more wait.

        Args:
            subject: Subject of the messages.
            keys: Their keys. A repeated key is moved once; all its places have the same answer.
            delay: One delay for all, or a sequence with one for each key.
            at: One aware datetime for all, or a sequence with one for each key.
            command_id: As for `cancel_keys`.

        Returns:
            The result of each key, in the order of `keys`, as `move_key` has it.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `move_key`, or a key is repeated with another time; `index` is the
                refused key, and nothing was moved.
            NamesFull: As `cancel_keys`.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.move_keys(subject, keys, delay, at, command_id))

    def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, without reading from disk.

        Returns:
            `PENDING` and the receipt of the message that is pending under the key. Without one, `DISPATCHED` and the
            receipt for ten minutes after the last one became ready, and otherwise `NOT_FOUND` without a receipt.

        Raises:
            WrongType, InvalidArgument: `subject` or `key` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.look_up_key(subject, key))
