"""The boundary between Python and the Rust core, as type stubs with documentation.

Everything here is private to delaymq: `delaymq.Store` and `delaymq.Subscription` are the public interface.
Rules of the boundary:

- One call carries a whole batch: tuples or ints, or messages as a consumer receives them; never callbacks.
- Durations and times are whole milliseconds; names end in `_ms`. The rules of `delaymq.durations` hold on both sides.
- A call that may wait releases the interpreter. On the main thread it checks for signals 25 times a second, so that
  Ctrl-C ends it within a tenth of a second; other threads run no handlers.
- `Unblocked` and its results are for an event loop: they never wait, and keep the interpreter.
- Bodies are copied while the interpreter is held, so that no other thread can change them meanwhile.
- Errors are the classes of `delaymq.errors`, with their attributes set.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final, overload

from delaymq._arguments.server_options import ServerOptions
from delaymq._core_client import *  # noqa: F403 - the rest of this manual: clients
from delaymq._core_cluster import *  # noqa: F403 - nodes of a group of copies
from delaymq._core_messages import *  # noqa: F403 - messages
from delaymq._core_messages import AsyncMessage, Message, Receipt, Receipts, Received
from delaymq._core_operators import *  # noqa: F403 - operators
from delaymq._core_operators import Columns
from delaymq._core_tables import *  # noqa: F403 - tables
from delaymq.filters import Filters
from delaymq.message import Publish, PublishOptions, Settling
from delaymq.starts import CoreStart as Start

__version__: str

Body: TypeAlias = bytes | bytearray | memoryview

@final
class Subscription:
    """A consumer of one group."""

    @overload
    def pull(self, count_max: int, timeout_ms: int | None, settling: None = None, /) -> list[Message]:
        """Waits until a message is ready; an empty list at the timeout or after `stop`."""
    @overload
    def pull(self, count_max: int, timeout_ms: int | None, settling: Settling, /) -> list[AsyncMessage]:
        """As the first, for an event loop: the messages are settled by `settling`."""
    def try_pull(self, count_max: int, at_once: bool, settling: Settling, /) -> list[AsyncMessage] | None:
        """Ready messages, without waiting. After an empty list, the store's `Unblocked` signals news once.
        None means that `pull` must be called, since looking would have to wait. With `at_once`, the caller does not
        wait for news: None also means that ready messages wait for facts that are being written.
        """
    def watch(self, token: int, /) -> None:
        """Signals news of this subscription under this token."""
    def begin_flush(self) -> int | None:
        """Submits everything queued; durable once the returned position is visible. None if that would wait."""
    def receipt(self, message: Received, /) -> Receipt:
        """The receipt that a message was published with."""
    def acknowledge(self, key: int) -> bool:
        """Queues one acknowledgement; never waits. False if the message was held for too long, here and below."""
    def acknowledge_many(self, messages: list[Message] | list[AsyncMessage], /) -> list[int]:
        """Queues acknowledgements; never waits. Returns the places of messages that were held for too long; the others
        are settled.
        """
    def give_back(self, key: int, delay_ms: int) -> bool:
        """Queues a redelivery after `delay_ms`; never waits."""
    def dead_letter(self, key: int, reason: str, /) -> bool:
        """Queues a dead letter; a reason over 1,024 bytes is refused."""
    def extend(self, key: int, duration_ms: int | None, /) -> bool:
        """Holds a message for so long from now, or for the time of the subscription once more."""
    def flush(self, timeout_ms: int | None) -> None:
        """Waits until everything queued is durable; TimedOut at the timeout."""
    def stop(self) -> None:
        """Ends all pulls, from any thread."""
    def close(self) -> None:
        """Stops, flushes, and gives back all messages that are not settled."""

@final
class Store:
    """An open store."""

    @staticmethod
    def open(path: str, *, progress: Callable[[int, int, int], None] | None, **options: object) -> Store:
        """Opens and recovers; `progress(facts, bytes, bytes_whole)` is called on this thread.

        Options are ints except durability ("disk" or "os"), create (bool) and clock (None, or an object with a `Clock`
        as `_core`; with a clock, "os" does not sync at all): segment_bytes, delay_ms_max, keep_finished_ms,
        checkpoint_bytes, checkpoint_facts, copy_after_ms, window_ms, window_bytes, keys_max, ids_max,
        id_window_ms, warn_free_bytes, refuse_free_bytes, clock_accept_after_ms (or None). An unknown name is refused.
        """
    def publish(self, subject: str, body: Body, options: PublishOptions, /) -> Receipt:
        """Stores one message. Options of uncommon types are read by `delaymq._arguments.publishes.row_of`."""
    def publish_columns(self, columns: Columns, /) -> Receipts:
        """Stores a message for each body."""
    def publish_messages(self, messages: list[Publish], with_ids: bool, /) -> Receipts:
        """Stores messages. With `with_ids`, each message is deduplicated by its id, or by a new one."""
    def unblocked(self) -> Unblocked:
        """The interface of an event loop to the store."""
    def subscribe(
        self,
        subjects: Sequence[str],
        group: str,
        start: Start,
        in_flight_max: int,
        filters: Filters,
        handle_within_ms: int | None = None,
        /,
    ) -> Subscription:
        """A consumer of subjects or a prefix; `start` is as `delaymq.starts.start_of` returns it."""
    def next_report(self, wait_ms_max: int, /) -> tuple[str, str, str] | None:
        """level, kind and text of the oldest report not yet fetched, or None; also when closed."""
    def checkpoint(self) -> None:
        """Takes a checkpoint and waits until it is durable."""
    def close(self) -> None:
        """Closes the store; a second call does nothing."""

@final
class Clock:
    """A clock that stands still until it is advanced."""

    def __new__(cls, now_ms: int, /) -> Clock: ...
    @property
    def now_ms(self) -> int:
        """The time that it shows, in milliseconds since 1970."""
    def advance(self, by_ms: int, patience_ms: int, /) -> None:
        """Advances the clock; returns when all stores on it are idle and all consumers ask for more."""
    def step(self, by_ms: int, /) -> None:
        """Sets the wall clock ahead, or back with less than 0, while no time passes."""
    def await_consumers(self, count: int, timeout_ms: int, /) -> None:
        """Waits until this many other threads consume; TimedOut if they do not."""

ReadyTuple: TypeAlias = tuple[str, bytes, int, int, int, bool, int, bytes]
"""subject, body, due_ms, published_ms, attempt, redelivered, sequence, meta"""

def abandon(store: Store, /) -> None:
    """Releases a store like a killed process does; Closed if it is closed."""

def reopen(store: Store, /) -> Store:
    """Opens an abandoned store again, with the same options and clock."""

def ready(store: Store, subject: str, group: str | None, /) -> list[ReadyTuple]:
    """Ready messages in order of delivery; none is delivered."""

@final
class Unblocked:
    """The calls of an event loop to a store."""

    def publish(self, subject: str, body: Body, options: PublishOptions, /) -> Receipts | Publishing:
        """As `Store.publish`; returns the receipts if the messages are durable already, as the next two do."""
    def publish_columns(self, columns: Columns, /) -> Receipts | Publishing: ...
    def publish_messages(self, messages: list[Publish], with_ids: bool, /) -> Receipts | Publishing: ...
    def fileno(self) -> int:
        """A descriptor that becomes readable when there is news to drain. The store closes it."""
    def drain(self) -> tuple[int, list[int], bool]:
        """The news: the visible position, tokens of subscriptions, and whether there are reports."""
    def want(self, position: int, /) -> bool:
        """True if it is visible; if not, the descriptor signals the last one asked. Poisoned or Closed if never."""

@final
class Publishing:
    """A publish in progress."""

    @property
    def position(self) -> int | None:
        """The publish is durable when everything below this is visible; None while there is no room for it."""
    @property
    def is_on_terms(self) -> bool:
        """True if its receipts must be awaited on a thread that may wait, because of its conditions."""
    def receipts(self) -> Receipts:
        """The receipts; they are valid once the publish is durable."""
    def submit(self) -> None:
        """Waits for room, on a thread that may wait."""

@final
class Places:
    """Addresses that a server has bound and does not listen on yet; there need be no store."""

    @staticmethod
    def take(choices: ServerOptions, /) -> Places:
        """Binds the addresses; refuses invalid options and addresses in use."""
    def serve(self, store: Store, /) -> Server:
        """Listens when it returns; a second call is refused."""

@final
class Server:
    """A server over an open store; dropping the object stops it immediately."""

    def addresses(self) -> tuple[str, str | None]:
        """The addresses for connections and for plain HTTP."""
    def notices(self) -> tuple[list[tuple[str, str, str, str, str, int]], int]:
        """Notices about peers: level, action, text, address, detail, count; and the number of notices left out."""
    def stop(self, patience_ms: int, /) -> None:
        """Begins to stop and returns; a later call with less patience replaces it."""
    def wait(self, wait_ms_max: int, /) -> int | None:
        """The number of connections that were ended with requests in progress, once it has stopped; None before."""

@final
class Request:
    """A request to a server, encoded once; it may be sent again on another connection.

    Beside these, each function `<name>_request` encodes the request for what `<name>` does in a store of this process.
    Its arguments and its answer are the same, but for what its documentation says. Arguments that a store would refuse
    are refused by both.
    """

    @staticmethod
    def publish(subject: str, body: Body, options: PublishOptions, with_ids: bool, /) -> Request:
        """One message, as `Store.publish`, and `with_ids` as for `Store.publish_messages`. Its answer: `Receipts`."""
    @staticmethod
    def publish_columns(columns: Columns, /) -> Request: ...
    @staticmethod
    def publish_messages(messages: list[Publish], with_ids: bool, /) -> Request: ...
    def __eq__(self, other: object, /) -> bool: ...  # the same bytes
    def __len__(self) -> int: ...

def decode_meta(meta: bytes, /) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """message_id ("" if none was given), tags and attributes of a delivery's meta."""

def verify(path: str, progress: Callable[[int, int], object] | None = None) -> dict[str, Any]:
    """Reads every byte of a closed store: batches, records, runs, checkpoints, aside, voided, problems.

    `progress(bytes, bytes_whole)`, of the log, is called on this thread.
    """

def records(path: str, /) -> list[tuple[int, str | None, dict[str, Any]]]:
    """Sequence, kind and fields, named as in docs/format.md, of every record of a closed store's log; for tests.

    A message has `meta` and `body`, which are None if they are damaged. The log must have its first fact.
    """

def inspect(path: str, keep_finished_ms: int, keep_finished_of_ms: Mapping[str, int]) -> dict[str, Any]:
    """Inspects a store without its lock: the fields of `delaymq.Inspection`, times in `_ms`."""

def salvage(path: str, into: str | None, progress: Callable[[int, int], object] | None, /) -> dict[str, Any]:
    """Saves the readable messages of a damaged store into a new one, if `into` names one; reports saved and lost ones.

    saved, lost_count, is_blind, gaps, damage, damage_unlisted, subjects, groups, series, lost.
    `progress(written, whole)` is called on this thread; an exception in it ends the salvage.
    """

def measure(name: str, folder: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """Runs one measurement of the `benches` crate; RuntimeError if it fails."""
