"""The part of `delaymq._core` that is for who runs a store: what is pending, and what operators do.

It is a part of that module's manual and no module of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

from delaymq._core import Body, Receipt, Request, Store

@final
class PendingReader:
    """A list of what is pending, under way."""

    def next_page(self, limit: int, /) -> PendingPage:
        """At most so many rows; there may be none where there are more behind them."""

PendingAsked: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""A subject or a prefix or neither, and from which time on and before which, in milliseconds since 1970."""

PendingPage: TypeAlias = tuple[list[tuple[str, Receipt, int, int]], str, bool, list[tuple[str, int, int, str]]]
"""Rows of subject, receipt, attempt and published sequence; the cursor behind them; True at the end; and of each
damaged block its path, number, rows and what is wrong."""

def pending(store: Store, asked: PendingAsked, after: str | None, /) -> PendingReader:
    """Begins to list what is pending, behind a cursor where one is given."""

def pending_counts(store: Store, subject: str | None, prefix: str | None, /) -> dict[str, int]:
    """How much of each subject is pending, by name."""

Terms: TypeAlias = tuple[str | None, int, bool]
"""A key or None; what becomes of the message where that is taken (0 replace, 1 keep, 2 refuse); whether it is told by
its message id."""

Meta: TypeAlias = tuple[str | None, Sequence[str], Mapping[str, str] | None]
"""message_id, tags, attributes; None instead of all three where there is nothing"""

Row: TypeAlias = tuple[str, Body, int, bool, object, Terms | None]
"""subject, body, due_ms, absolute, meta, terms"""

def cancel_key(store: Store, subject: str, key: str, command_id: str | None, /) -> str:
    """The value of `Outcome`."""

def move_key(
    store: Store, subject: str, key: str, due_ms: int, absolute: bool, command_id: str | None, /
) -> tuple[tuple[str, Receipt | None], ...]:
    """As `Store.move_many`, of one."""

def look_up_key(store: Store, subject: str, key: str, /) -> Receipt | None:
    """The receipt of the pending message that has a key."""

def cancel_keys(store: Store, subject: str, keys: list[str], command_id: str | None, /) -> tuple[str, ...]:
    """The value of `Outcome`, each; `index` says which key was refused."""

def move_keys(
    store: Store, subject: str, moves: list[tuple[str, int, bool]], command_id: str | None, /
) -> tuple[tuple[str, Receipt | None], ...]:
    """As `Store.move_many`; key, `due_ms` and absolute of each."""

def cancel_keys_request(subject: str, keys: list[str], command_id: str | None, /) -> Request:
    """Its answer: as that of `Request.cancel`."""

def move_keys_request(subject: str, moves: list[tuple[str, int, bool]], command_id: str | None, /) -> Request:
    """Its answer: as that of `Request.move_to`."""

def cancel_key_request(subject: str, key: str, command_id: str | None, /) -> Request:
    """Its answer: as that of `Request.cancel`, of one."""

def move_key_request(subject: str, key: str, due_ms: int, absolute: bool, command_id: str | None, /) -> Request:
    """Its answer: as that of `Request.move_to`, of one."""

def look_up_key_request(subject: str, key: str, /) -> Request:
    """Its answer: `Receipts`, of one or none."""

RecurAsked: TypeAlias = tuple[str, int | None, str | None, str, int | None, int, int]
"""Its name; the interval in milliseconds or the cron pattern, and None for the other; the zone; the start in
milliseconds since 1970 or None; what is done about what is missed (0 one, 1 skip, 2 all) and where there is one of its
name (0 replace, 1 keep, 2 refuse)."""

RecurringRow: TypeAlias = tuple[int, str, str, str, str, int, Receipt | None]
"""Number, subject, name, rule, zone, what is done about what is missed, and the receipt of what is pending."""

def recur(store: Store, subject: str, body: Body, recurs: RecurAsked, about: Meta | None, /) -> RecurringRow:
    """Begins a series."""

def end_recurring(store: Store, subject: str, name: str, /) -> bool:
    """Ends a series; False where there is none of that name."""

def recurring(store: Store, subject: str | None, after: int, limit: int, /) -> list[RecurringRow]:
    """Series with a number above `after`, by number."""

def recur_request(subject: str, body: Body, recurs: RecurAsked, about: Meta | None, /) -> Request:
    """Its answer: 0, and the row of the series."""

def end_recurring_request(subject: str, name: str, /) -> Request:
    """Its answer: how many ended."""

def recurring_request(subject: str | None, after: int, /) -> Request:
    """A piece of the list. Its answer: what to ask after for the next one, 0 for none, and rows."""

StagedRunTold: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, digest and rows of a staged run."""

def load(store: Store, job: str, runs: list[StagedRunTold], /) -> tuple[int, int, bool]:
    """Stores what was staged: the first sequence, how many, and whether that was done before."""

def load_request(job: str, runs: list[StagedRunTold], /) -> Request:
    """Its answer: what `load` returns."""

ForecastAsked: TypeAlias = tuple[str | None, int | None, int | None, bool]
"""A subject or none, from which time on and before which, in milliseconds since 1970, and whether by the second."""

def forecast(store: Store, asked: ForecastAsked, /) -> tuple[bytes, int]:
    """Start in milliseconds, messages and bytes of each slot, 64 bits each, and the rows of damaged blocks."""

def look_up_many(store: Store, receipts: list[Receipt], /) -> list[tuple[str, str]]:
    """The values of `Fate` and the subjects, in order; ForeignReceipt where one is of another store."""

def cursor_behind(receipt: Receipt, /) -> str:
    """The cursor of a list that ended with the entry of this receipt."""

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

def consumers(store: Store, subject: str, group: str, /) -> list[dict[str, Any]]:
    """The fields of `delaymq.Consumer`, for each consumer of the group and of its retry subject."""

def end_consumer(store: Store, subject: str, group: str, consumer: str, /) -> int:
    """Ends a consumer that a client named; how many messages it held."""

def check_subject(name: str, /) -> None:
    """Refuses what no subject can be named."""

def dead_letters(store: Store, subject: str, group: str, limit: int, /) -> list[dict[str, Any]]:
    """The fields of `delaymq.DeadLetter`, the oldest first; died_ms and published_ms for the times."""

def redrive(store: Store, subject: str, group: str, limit: int | None, /) -> int:
    """Brings dead letters back; how many."""
