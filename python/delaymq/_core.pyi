"""The boundary between Python and the Rust core, and its manual.

Everything here is private to delaymq: `delaymq.Store` and `delaymq.Subscription` are the faces.
Rules of the boundary:

- Cross once for a batch. What is per message is a tuple or an int, never a call back.
- Durations and times are whole milliseconds; names end in `_ms`. Python's rules for them
  (`delaymq.durations`) hold on both sides.
- A call that may wait lets go of the interpreter. On the main thread it looks for signals 25 times a
  second, so that Ctrl-C ends it within a tenth of a second; other threads run no handlers.
- `Unblocked` and what it returns are an event loop's: they wait for nothing and keep the interpreter.
- Bodies are copied while the interpreter is held, so that nobody can change them meanwhile.
- Errors are the classes of `delaymq.errors`, with their attributes set.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, final, overload

from delaymq._arguments.server_options import ServerOptions
from delaymq._core_operators import *  # noqa: F403 - the rest of this manual
from delaymq._core_operators import ForecastAsked, Meta, PendingAsked, Row, Terms
from delaymq._core_tables import *  # noqa: F403 - and of that, tables

__version__: str

Body: TypeAlias = bytes | bytearray | memoryview

Delivery: TypeAlias = tuple[int, str, bytes, int, int, int, bool, int, int, bytes, bytes]
"""key, subject, body, due_ms, published_ms, attempt, redelivered, sequence, first_due_ms, meta, and what a
server told of the receipt, which is empty where the store is in this process"""

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
    @property
    def size(self) -> int | None:
        """Bytes of the body; None where the receipt comes from a list, which does not look at bodies."""
    def __hash__(self) -> int: ...

@final
class Receipts(Sequence[Receipt]):
    """The receipts of one `publish_many`, in its order: a sequence, in which each is made when it is asked for."""

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
    def try_pull(self, count_max: int, at_once: bool, /) -> list[Delivery] | None:
        """What is there, without waiting. After an empty list the store's `Unblocked` tells of news once;
        None means that looking would have to wait, which `pull` does. With `at_once` nobody will wait for
        news, so that it is None too where something is ready that only facts on their way keep back.
        """
    def watch(self, token: int, /) -> None:
        """News of this subscription is told under this token."""
    def begin_flush(self) -> int | None:
        """Sends what was queued; durable when that position is visible. None where that would wait."""
    def receipt(self, delivery: Delivery, /) -> Receipt:
        """The receipt that a message was published with, from what its delivery says."""
    def acknowledge(self, key: int) -> None:
        """Queues one acknowledgement; never waits."""
    def acknowledge_many(self, keys: list[int]) -> None:
        """Queues acknowledgements; never waits."""
    def give_back(self, key: int, delay_ms: int) -> None:
        """Queues a redelivery after `delay_ms`; never waits."""
    def dead_letter(self, key: int, reason: str, /) -> None:
        """Queues putting a delivery away; a reason over 1,024 bytes is refused."""
    def flush(self, timeout_ms: int | None) -> None:
        """Waits until what was queued is durable; TimedOut at the timeout."""
    def now_ms(self) -> int:
        """The store's trusted clock, in milliseconds since 1970."""
    def stop(self) -> None:
        """Ends all pulls, from any thread."""
    def close(self) -> None:
        """Stops, flushes and gives back what is left."""

@final
class Store:
    """An open store."""

    @staticmethod
    def open(path: str, *, progress: Callable[[int, int, int], None] | None, **options: object) -> Store:
        """Opens and recovers; `progress(facts, bytes, bytes_whole)` is called on this thread.

        Options are whole numbers but for durability ("disk" or "os"), create (bool) and clock (None, or what
        holds a `Clock` as `_core`; with one, "os" does not sync at all): segment_bytes, delay_ms_max, keep_finished_ms,
        checkpoint_bytes, checkpoint_facts, copy_after_ms, window_ms, window_bytes, keys_max, ids_max,
        id_window_ms, warn_free_bytes, refuse_free_bytes. An unknown name is refused.
        """
    def publish(
        self, subject: str, body: Body, due_ms: int, absolute: bool, meta: Meta | None, terms: Terms | None, /
    ) -> Receipt:
        """Stores one message; `absolute` says that `due_ms` counts from 1970, not from now."""
    def publish_many(
        self, subject: str, bodies: Sequence[Body], delays: int | Sequence[timedelta | float], /
    ) -> Receipts:
        """Stores messages of one subject; an int of delays is milliseconds for all of them."""
    def publish_mixed(self, rows: list[Row], /) -> Receipts:
        """Stores messages of any subjects."""
    def unblocked(self) -> Unblocked:
        """The store as an event loop holds it."""
    def cancel_many(self, receipts: list[Receipt], /) -> tuple[str, ...]:
        """The values of `Outcome`, in order; ForeignReceipt where one is of another store, before any is cancelled."""
    def move_many(self, moves: list[tuple[Receipt, int, bool]], /) -> tuple[tuple[str, Receipt | None], ...]:
        """As `cancel_many`, with new receipts; receipt, `due_ms` and absolute of each, as `publish` has them."""
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

@final
class Clock:
    """Stands still until it is turned."""

    def __new__(cls, now_ms: int, /) -> Clock: ...
    @property
    def now_ms(self) -> int:
        """What it shows, in milliseconds since 1970."""
    def advance(self, by_ms: int, patience_ms: int, /) -> None:
        """Lets time pass; returns when all stores on it are idle and all who consume have come back."""
    def await_consumers(self, count: int, timeout_ms: int, /) -> None:
        """Waits until so many other threads consume; TimedOut where they do not."""

ReadyTuple: TypeAlias = tuple[str, bytes, int, int, int, bool, int, bytes]
"""subject, body, due_ms, published_ms, attempt, redelivered, sequence, meta"""

def abandon(store: Store, /) -> None:
    """Lets go of a store as a killed process does; Closed where it is closed."""

def reopen(store: Store, /) -> Store:
    """Opens again what was let go of, with the same options and clock."""

def ready(store: Store, subject: str, group: str | None, /) -> list[ReadyTuple]:
    """What is ready, in the order in which it would be handed over; nothing is taken."""

@final
class Unblocked:
    """The calls of an event loop to a store."""

    def publish(
        self, subject: str, body: Body, due_ms: int, absolute: bool, meta: Meta | None, terms: Terms | None, /
    ) -> Receipts | Publishing:
        """As `Store.publish`: the receipts where the message is durable already."""
    def publish_many(
        self, subject: str, bodies: Sequence[Body], delays: int | Sequence[timedelta | float], /
    ) -> Receipts | Publishing:
        """As `Store.publish_many`."""
    def publish_mixed(self, rows: list[Row], /) -> Receipts | Publishing:
        """As `Store.publish_mixed`."""
    def fileno(self) -> int:
        """A descriptor that becomes readable when there is something to drain. The store closes it."""
    def drain(self) -> tuple[int, list[int], bool]:
        """What happened: the visible position, tokens with news, whether there are reports."""
    def want(self, position: int, /) -> bool:
        """True where the position is visible; otherwise the descriptor tells. The last one asked for
        counts. Raises Poisoned or Closed where it never will be.
        """

@final
class Publishing:
    """A publish under way."""

    @property
    def position(self) -> int | None:
        """It is durable when everything below this is visible; None while there is no room for it."""
    @property
    def is_on_terms(self) -> bool:
        """Whether its receipts have to be waited for, on a thread that may."""
    def receipts(self) -> Receipts:
        """The receipts; they mean nothing before the publish is durable."""
    def submit(self) -> None:
        """Waits for room, on a thread that may."""

@final
class Places:
    """Addresses that a server has and does not listen on yet; there need be no store."""

    @staticmethod
    def take(choices: ServerOptions, /) -> Places:
        """Refuses what cannot be served with, and addresses that others have."""
    def serve(self, store: Store, /) -> Server:
        """Listens when it returns; a second call is refused."""

@final
class Server:
    """A server over an open store; dropping it ends it at once."""

    def addresses(self) -> tuple[str, str | None]:
        """Where connections are taken, and where plain HTTP is answered."""
    def notices(self) -> tuple[list[tuple[str, str, str, str, str, int]], int]:
        """What to tell of peers: level, action, text, address, detail, how often; and how many were left out."""
    def stop(self, patience_ms: int, /) -> None:
        """Begins to stop and returns; a later call with less patience counts instead."""
    def wait(self, wait_ms_max: int, /) -> int | None:
        """How many connections were ended with something under way, once it has stopped; None before."""

Event: TypeAlias = tuple[int, int, Any, Any]
"""Of an answer: call, command, value and error, one of them None. Of a delivery: -1, the number of its
subscription, the trusted clock in milliseconds, and a list of `Delivery`."""

@final
class Request:
    """A request to a server, encoded once; it may be asked again on another connection.

    The names are those of docs/protocol.md or of the functions here, whose answers they have. What a store would refuse
    of an argument is refused here.
    """

    @staticmethod
    def hello(client: str, token: bytes, /) -> Request:
        """Who connects. Its answer: a dict of server, stream, now_ms and delay_ms_max."""
    @staticmethod
    def ping() -> Request: ...
    @staticmethod
    def publish(
        subject: str, body: Body, due_ms: int, absolute: bool, meta: Meta | None, terms: Terms | None, /
    ) -> Request:
        """One message, as `Store.publish`. Its answer: `Receipts`."""
    @staticmethod
    def publish_many(subject: str, bodies: Sequence[Body], delays: int | Sequence[timedelta | float], /) -> Request: ...
    @staticmethod
    def publish_mixed(rows: list[Row], /) -> Request: ...
    @staticmethod
    def cancel(receipts: list[Receipt], stream: bytes, /) -> Request:
        """As `Store.cancel_many`; ForeignReceipt where one is of another stream."""
    @staticmethod
    def move_to(moves: list[tuple[Receipt, int, bool]], stream: bytes, /) -> Request: ...
    @staticmethod
    def subscribe(number: int, names: tuple[str, str, str], start: str, in_flight_max: int, /) -> Request:
        """A consumer without credit, by subject, group and its own name.

        Its answer: the name, and whether the group is new.
        """
    @staticmethod
    def credit(number: int, credit: int, /) -> Request: ...
    @staticmethod
    def acknowledge(number: int, keys: list[int], /) -> Request: ...
    @staticmethod
    def give_back(number: int, messages: list[tuple[int, int]], /) -> Request:
        """Messages shall come again, by key and delay in milliseconds."""
    @staticmethod
    def put_away(number: int, keys: list[int], reason: str, /) -> Request: ...
    @staticmethod
    def flush(number: int, /) -> Request: ...
    @staticmethod
    def unsubscribe(number: int, /) -> Request: ...
    @staticmethod
    def status() -> Request:
        """Its answer: the fields of `delaymq.Status`."""
    @staticmethod
    def groups(after: int, /) -> Request:
        """A piece of the list. Its answer: where the next one begins, 0 for nowhere, and fields of `delaymq.Group`."""
    @staticmethod
    def subjects(after: int, /) -> Request:
        """As `groups`, with what `subjects` of a store tells."""
    @staticmethod
    def start_group(subject: str, group: str, start: str, /) -> Request: ...
    @staticmethod
    def reset_group(subject: str, group: str, start: str, /) -> Request: ...
    @staticmethod
    def remove_group(subject: str, group: str, /) -> Request: ...
    @staticmethod
    def dead_letters(subject: str, group: str, after: int, limit: int, /) -> Request:
        """As `groups`, with what `dead_letters` of a store tells; at most so many."""
    @staticmethod
    def redrive(subject: str, group: str, limit: int | None, /) -> Request: ...
    @staticmethod
    def expire(subject: str, older_than_ms: int, /) -> Request: ...
    @staticmethod
    def consumers(subject: str, group: str, after: int, /) -> Request:
        """As `groups`, with what `consumers` of a store tells."""
    @staticmethod
    def end_consumer(subject: str, group: str, consumer: str, /) -> Request: ...
    @staticmethod
    def look_up(receipts: list[Receipt], stream: bytes, /) -> Request:
        """As `look_up_many` of a store; ForeignReceipt where one is of another stream."""
    @staticmethod
    def pending(asked: PendingAsked, after: str | None, limit: int, stream: bytes, /) -> Request:
        """A page of what is pending; what the store of this stream would refuse is refused.

        Its answer: `PendingPage`.
        """
    @staticmethod
    def forecast(asked: ForecastAsked, begins: int, /) -> Request:
        """A piece of the forecast, from these milliseconds on unless 0.

        Its answer: slots, the rows of damaged blocks, and where the next piece begins, 0 for nowhere.
        """
    @staticmethod
    def pending_counts(subject: str | None, prefix: str | None, after: str, /) -> Request:
        """A piece of the counts.

        Its answer: where the next one begins, "" for nowhere, and subjects with their counts.
        """
    def __len__(self) -> int: ...

@final
class Caller:
    """One connection to a server, without its socket. Threads may share it; nothing here waits."""

    def __new__(cls) -> Caller: ...
    def ask(self, request: Request, /) -> int | None:
        """Makes a request; the call that its answer names, or None where there is no room now."""
    def tell(self, request: Request, /) -> bool:
        """Makes a request that only an error answers; False where there is no room now."""
    def forget(self, call: int, /) -> bool:
        """Nobody waits for this answer any more; False where it has come."""
    def receive(self, stream: bytes, data: bytes, /) -> tuple[list[Event], Exception | None]:
        """What these bytes say, in order, and what is wrong with the rest, after which nothing more is read.

        Receipts of deliveries are of `stream`.
        """
    def output(self, bytes_max: int, /) -> bytes:
        """The first bytes that wait to be written."""
    @property
    def output_bytes(self) -> int:
        """How many bytes wait to be written."""
    def sent(self, count: int, /) -> None:
        """So many of them were written."""
    def lost(self) -> list[int]:
        """The connection is gone: the calls that nobody knows the end of."""
    @staticmethod
    def delivered_to(key: int, number: int, /) -> bool:
        """True where the subscription of this number was handed the message of this key."""

def receipt_of(delivery: Delivery, /) -> Receipt:
    """The receipt of a message that a server delivered."""

def decode_meta(meta: bytes, /) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """message_id ("" where none was given), tags and attributes of a delivery's meta."""

def verify(path: str, progress: Callable[[int, int], object] | None = None) -> dict[str, Any]:
    """Reads every byte of a closed store: batches, records, runs, checkpoints, aside, voided, problems.

    `progress(bytes, bytes_whole)`, of the log, is called on this thread.
    """

def records(path: str, /) -> list[tuple[int, str | None, dict[str, Any]]]:
    """Sequence, kind and fields, named as in docs/format.md, of every record of a closed store's log; for tests.

    Of a message `meta` and `body`, which are None where they are damaged. The log must have its first fact.
    """

def inspect(path: str, keep_finished_ms: int, keep_finished_of_ms: Mapping[str, int]) -> dict[str, Any]:
    """Looks at a store without its lock: the fields of `delaymq.Inspection`, times in `_ms`."""

def salvage(path: str, into: str | None, progress: Callable[[int, int], object] | None, /) -> dict[str, Any]:
    """What can be saved of a damaged store, and what is gone; written into a new store where `into` names one.

    saved, lost_count, is_blind, gaps, damage, damage_unlisted, subjects, groups, series, lost.
    `progress(written, whole)` is called on this thread; what it raises ends the writing.
    """

def measure(name: str, folder: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """Runs one measurement of the `benches` crate; RuntimeError where it cannot be made."""
