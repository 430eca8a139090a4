"""The boundary between Python and the Rust core, and its manual.

Everything here is private to delaymq: `delaymq.Store` and `delaymq.Subscription` are the faces.
Rules of the boundary:

- Cross once for a batch. What is per message is a tuple or an int, never a call back.
- Durations and times are whole milliseconds; names end in `_ms`. Python's rules for them
  (`delaymq.durations`) hold on both sides.
- A call that may wait lets go of the interpreter, and looks for signals five times a second.
- Bodies are copied while the interpreter is held, so that nobody can change them meanwhile.
- Errors are the classes of `delaymq.errors`, with their attributes set.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, final, overload

__version__: str

Body: TypeAlias = bytes | bytearray | memoryview

Delivery: TypeAlias = tuple[int, str, bytes, int, int, int, bool, int]
"""key, subject, body, due_ms, published_ms, attempt, redelivered, sequence"""

@final
class Receipt:
    """Names one message of one store, and proves that the store gave it out.

    `str(receipt)` is one line of at most 80 ASCII characters, to be kept in a database;
    `Receipt.parse` reads it back. Receipts compare and hash by what they name.
    """

    @staticmethod
    def parse(text: str) -> Receipt:
        """Reads a receipt from its text.

        Raises:
            WrongType: It is not a str.
            InvalidArgument: It is not the text of a receipt.
        """
    @property
    def due(self) -> datetime:
        """When the message is due, UTC, to the millisecond."""
    @property
    def sequence(self) -> int:
        """The place of the message in the store's order of facts."""
    def __hash__(self) -> int: ...

@final
class Receipts(Sequence[Receipt]):
    """The receipts of one `publish_many`, in its order; each is made when it is asked for."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Receipt:
        """The receipt at an index; negative ones count from the end."""
    @overload
    def __getitem__(self, index: slice, /) -> list[Receipt]:
        """The receipts of a slice."""

@final
class Subscription:
    """A consumer of one group."""

    def pull(self, count_max: int, timeout_ms: int | None) -> list[Delivery]:
        """Waits until something is due; an empty list at the timeout or after `stop`."""
    def acknowledge(self, key: int) -> None:
        """Queues one acknowledgement; never waits."""
    def acknowledge_many(self, keys: list[int]) -> None:
        """Queues acknowledgements; never waits."""
    def give_back(self, key: int, delay_ms: int) -> None:
        """Queues a redelivery after `delay_ms`; never waits."""
    def flush(self, timeout_ms: int | None) -> None:
        """Waits until what was queued is durable; TimedOut at the timeout."""
    def stop(self) -> None:
        """Ends all pulls, from any thread."""
    def close(self) -> None:
        """Stops, flushes and gives back what is left."""

@final
class Store:
    """An open store."""

    @staticmethod
    def open(
        path: str,
        *,
        progress: Callable[[int, int], None] | None,
        **options: object,
    ) -> Store:
        """Opens and recovers; `progress(facts, bytes)` is called on this thread.

        Options are whole numbers but for durability ("disk" or "os") and create (bool): segment_bytes,
        delay_ms_max, keep_finished_ms, checkpoint_bytes, checkpoint_facts, copy_after_ms, window_ms,
        window_entries_max. An unknown name is refused.
        """
    def publish(self, subject: str, body: Body, due_ms: int, absolute: bool, /) -> Receipt:
        """Stores one message; `absolute` says that `due_ms` counts from 1970, not from now."""
    def publish_many(
        self, subject: str, bodies: Sequence[Body], delays: int | Sequence[timedelta | float], /
    ) -> Receipts:
        """Stores messages of one subject; an int of delays is milliseconds for all of them."""
    def publish_mixed(self, rows: list[tuple[str, Body, int, bool]], /) -> Receipts:
        """Stores rows of subject, body, due_ms and absolute."""
    def cancel_many(self, receipts: list[Receipt], /) -> tuple[str, ...]:
        """The values of `Outcome`, in order."""
    def subscribe(self, subject: str, group: str, start: str, in_flight_max: int, /) -> Subscription:
        """A consumer; `start` is "earliest" or "latest"."""
    def status(self) -> dict[str, Any]:
        """The fields of `delaymq.Status`; also when the store is closed."""
    def next_report(self, wait_ms_max: int, /) -> tuple[str, str, str] | None:
        """level, kind and text of the oldest report not yet fetched, or None; also when closed."""
    def checkpoint(self) -> None:
        """Takes a checkpoint and waits until it is durable."""
    def close(self) -> None:
        """Closes; again does nothing."""

def verify(path: str) -> dict[str, Any]:
    """Reads every byte of a closed store: batches, records, runs, checkpoints, aside, voided, problems."""

def measure(name: str, folder: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """Runs one measurement of the `benches` crate; RuntimeError where it cannot be made."""

# What operators do.

def groups(store: Store) -> list[dict[str, Any]]:
    """The fields of `delaymq.Group`, for each group of a subject of users."""

def subjects(store: Store) -> list[dict[str, Any]]:
    """The fields of `delaymq.Subject`, for each subject of users; expired_before_ms for its expiry."""

def start_group(store: Store, subject: str, group: str, start: str, /) -> None:
    """Makes a group; `start` is "earliest" or "latest". One that is there is refused."""

def reset_group(store: Store, subject: str, group: str, start: str, /) -> None:
    """Lets a group that nobody consumes for begin again."""

def remove_group(store: Store, subject: str, group: str, /) -> None:
    """Removes a group that nobody consumes for, with what it gave back and its dead letters."""

def expire(store: Store, subject: str, older_than_ms: int, /) -> int:
    """Gives up ready messages that were due so long ago and that nobody holds; how many."""

def dead_letter(subscription: Subscription, key: int, reason: str, /) -> None:
    """Puts a delivery away, queued as `give_back` is; a reason over 1,024 bytes is refused."""

def dead_letters(store: Store, subject: str, group: str, limit: int, /) -> list[dict[str, Any]]:
    """The fields of `delaymq.DeadLetter`, the oldest first; died_ms and published_ms for the times."""

def redrive(store: Store, subject: str, group: str, limit: int | None, /) -> int:
    """Brings dead letters back; how many."""
