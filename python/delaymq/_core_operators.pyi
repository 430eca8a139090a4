"""Type stubs of the part of `delaymq._core` for operators, keys, recurring messages, loads and queries.

It is a part of that module and no module of its own.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, final

from delaymq._core import Body, Receipt, Request, Store
from delaymq.starts import CoreStart as Start

@final
class PendingReader:
    """A list of pending messages in progress."""

    def next_page(self, limit: int, /) -> PendingPage:
        """The next page, of at most `limit` rows; it may be empty although more rows follow."""

PendingAsked: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""A subject, a prefix or neither, and the earliest due time and the time before which, in milliseconds since 1970."""

PendingPage: TypeAlias = tuple[list[tuple[str, Receipt, int, int]], str, bool, list[tuple[str, int, int, str]]]
"""Rows of subject, receipt, attempt and published sequence; the cursor behind them; True at the end; and for each
damaged block its path, number, rows and error.
"""

def pending(store: Store, wanted: PendingAsked, after: str | None, /) -> PendingReader:
    """Begins to list pending messages, behind a cursor if one is given."""

def pending_request(wanted: PendingAsked, after: str | None, limit: int, stream: bytes, /) -> Request:
    """A page. Its answer: `PendingPage`. A cursor of another stream is refused."""

def pending_counts(store: Store, subject: str | None, prefix: str | None, /) -> list[tuple[str, int]]:
    """Subjects, and the numbers of their pending messages."""

def pending_counts_request(subject: str | None, prefix: str | None, after: str = "", /) -> Request:
    """A part of the list, as of `groups_request`; "" is the end."""

Meta: TypeAlias = tuple[str | None, Sequence[str], Mapping[str, str] | None]
"""message_id, tags, attributes; None instead of the tuple if none is given"""

Columns: TypeAlias = tuple[
    str | Sequence[str],
    Sequence[Body],
    int | Sequence[timedelta | float],
    int | Sequence[datetime] | memoryview | None,
    Sequence[str | None] | None,
    int,
    list[int] | None,
    list[str] | None,
]
"""Subjects, bodies, delays (an int is milliseconds for all), due times instead or None (an int, or a view of int64, is
milliseconds since 1970), keys, the effect of a taken key (0 replace, 1 keep, 2 refuse), milliseconds to add, and ids to
deduplicate by.
"""

def cancel_many(store: Store, receipts: list[Receipt], /) -> tuple[str, ...]:
    """The values of `Outcome`, in order; ForeignReceipt, with no effect, if a receipt is of another store."""

def cancel_many_request(receipts: list[Receipt], stream: bytes, /) -> Request:
    """ForeignReceipt if a receipt is of another stream."""

def move_many(store: Store, moves: list[tuple[Receipt, int, bool]], /) -> tuple[tuple[str, Receipt | None], ...]:
    """As `cancel_many`, with new receipts; each move is a receipt, `due_ms` and absolute as for `publish`."""

def move_many_request(moves: list[tuple[Receipt, int, bool]], stream: bytes, /) -> Request:
    """ForeignReceipt if a receipt is of another stream."""

def cancel_key(store: Store, subject: str, key: str, command_id: str | None, /) -> tuple[str]:
    """As `cancel_many`, for one message."""

def move_key(
    store: Store, subject: str, key: str, due_ms: int, absolute: bool, command_id: str | None, /
) -> tuple[tuple[str, Receipt | None], ...]:
    """As `move_many`, for one message."""

def look_up_key(store: Store, subject: str, key: str, /) -> tuple[str, Receipt | None]:
    """The value of `Fate` of the last message that had a key, and its receipt or None."""

def cancel_keys(store: Store, subject: str, keys: list[str], command_id: str | None, /) -> tuple[str, ...]:
    """The value of `Outcome` for each; `index` is the refused key."""

def move_keys(
    store: Store, subject: str, moves: list[tuple[str, int, bool]], command_id: str | None, /
) -> tuple[tuple[str, Receipt | None], ...]:
    """As `move_many`; each move is a key, `due_ms` and absolute."""

def cancel_keys_request(subject: str, keys: list[str], command_id: str | None, /) -> Request: ...
def move_keys_request(subject: str, moves: list[tuple[str, int, bool]], command_id: str | None, /) -> Request: ...
def cancel_key_request(subject: str, key: str, command_id: str | None, /) -> Request: ...
def move_key_request(subject: str, key: str, due_ms: int, absolute: bool, command_id: str | None, /) -> Request: ...
def look_up_key_request(subject: str, key: str, /) -> Request: ...

RecurAsked: TypeAlias = tuple[str, int | None, str | None, str, int | None, int, int, tuple[int, bool] | None]
"""The name; the interval in milliseconds or the cron pattern, and None for the other; the zone; the start in
milliseconds since 1970 or None; how missed occurrences are handled (0 one, 1 skip, 2 all); the effect if the name
is taken (0 replace, 1 keep, 2 refuse); and the milliseconds after which each message expires, with whether it becomes a
dead letter then, or None.
"""

RecurringRow: TypeAlias = tuple[int, str, str, str, str, int, tuple[int, bool] | None, Receipt | None]
"""Number, subject, name, rule, zone, how missed occurrences are handled, when messages expire, and the receipt of the
pending message.
"""

def recur(store: Store, subject: str, body: Body, recurs: RecurAsked, about: Meta | None, /) -> RecurringRow:
    """Begins a series."""

def end_recurring(store: Store, subject: str, name: str, /) -> bool:
    """Ends a series; False if there is none of that name."""

def recurring(store: Store, subject: str | None, /) -> list[RecurringRow]:
    """All series, by number."""

def recur_request(subject: str, body: Body, recurs: RecurAsked, about: Meta | None, /) -> Request: ...
def end_recurring_request(subject: str, name: str, /) -> Request:
    """Its answer: how many ended."""

def recurring_request(subject: str | None, after: int = 0, /) -> Request:
    """A part of the list, as of `groups_request`."""

StagedRunTold: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, digest and rows of a staged run."""

def load(store: Store, job: str, runs: list[StagedRunTold], /) -> tuple[int, int, bool]:
    """Loads staged runs: the first sequence, the count, and whether they were loaded before."""

def load_request(job: str, runs: list[StagedRunTold], /) -> Request: ...

ForecastAsked: TypeAlias = tuple[str | None, int | None, int | None, bool]
"""A subject or none, first and end due time in milliseconds since 1970, and whether by seconds.
"""

def forecast(store: Store, wanted: ForecastAsked, /) -> list[tuple[bytes, int]]:
    """Start in milliseconds, messages and bytes of each slot, 64 bits each, and the rows of damaged blocks: one row."""

def forecast_request(wanted: ForecastAsked, begins: int = 0, /) -> Request:
    """A part of the list, from `begins` (milliseconds) on unless 0, as of `groups_request`."""

def look_up_many(store: Store, receipts: list[Receipt], /) -> list[tuple[str, str]]:
    """The values of `Fate` and the subjects, in order; ForeignReceipt if a receipt is of another store."""

def look_up_many_request(receipts: list[Receipt], stream: bytes, /) -> Request:
    """ForeignReceipt if a receipt is of another stream."""

def cursor_behind(receipt: Receipt, /) -> str:
    """The cursor of a list that ended with the entry of this receipt."""

def status(store: Store, /) -> dict[str, Any]:
    """The fields of `delaymq.Status`; also when the store is closed."""

def status_request() -> Request: ...
def groups(store: Store) -> list[dict[str, Any]]:
    """The fields of `delaymq.Group`, for each group of a user's subject."""

def groups_request(after: int = 0, /) -> Request:
    """A part of the list. Its answer: the place after which the next part begins, 0 for the end, and rows."""

def subjects(store: Store) -> list[dict[str, Any]]:
    """The fields of `delaymq.Subject`, for each user's subject; expired_before_ms for its expiry."""

def subjects_request(after: int = 0, /) -> Request:
    """A part of the list, as of `groups_request`."""

def start_group(store: Store, subject: str, group: str, start: Start, /) -> None:
    """Creates a group; `start` is as `delaymq.starts.start_of` returns it. An existing group is refused."""

def start_group_request(subject: str, group: str, start: Start, /) -> Request: ...
def reset_group(store: Store, subject: str, group: str, start: Start, /) -> None:
    """Resets a group without consumers; `start` as for `start_group`."""

def reset_group_request(subject: str, group: str, start: Start, /) -> Request: ...
def remove_group(store: Store, subject: str, group: str, /) -> None:
    """Removes a group without consumers, with its retries and dead letters."""

def remove_group_request(subject: str, group: str, /) -> Request: ...
def expire(store: Store, subject: str, older_than_ms: int, /) -> int:
    """Expires ready messages that were due this long ago and that no consumer holds; returns how many."""

def expire_request(subject: str, older_than_ms: int, /) -> Request: ...
def consumers(store: Store, subject: str, group: str, /) -> list[dict[str, Any]]:
    """The fields of `delaymq.Consumer`, for each consumer of the group and of its retry subject."""

def consumers_request(subject: str, group: str, after: int = 0, /) -> Request:
    """A part of the list, as of `groups_request`."""

def end_consumer(store: Store, subject: str, group: str, consumer: str, /) -> int:
    """Ends a consumer that a client named; returns how many messages it held."""

def end_consumer_request(subject: str, group: str, consumer: str, /) -> Request: ...
def clock(store: Store) -> dict[str, Any]:
    """The fields of `delaymq.ClockStatus`."""

def clock_request() -> Request: ...
def accept_clock(store: Store, ahead_ms: int, /) -> int:
    """Accepts the step that holds dispatch, if it is this far ahead; returns how far the trusted clock went ahead."""

def accept_clock_request(ahead_ms: int, /) -> Request: ...
def check_subject(name: str, /) -> None:
    """Refuses an invalid name of a subject."""

def dead_letters(store: Store, subject: str, group: str, limit: int, /) -> list[dict[str, Any]]:
    """The fields of `delaymq.DeadLetter`, the oldest first; died_ms and published_ms for the times."""

def dead_letters_request(subject: str, group: str, limit: int, after: int = 0, /) -> Request:
    """A part of the list, as of `groups_request`; `limit` rows at most."""

def redrive(store: Store, subject: str, group: str, limit: int | None, /) -> int:
    """Delivers dead letters again; returns how many."""

def redrive_request(subject: str, group: str, limit: int | None, /) -> Request: ...
