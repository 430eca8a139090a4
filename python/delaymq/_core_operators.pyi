"""Type stubs of the part of `delaymq._core` for operators, keys, recurring messages, loads and queries.

It is a part of that module and no module of its own. The two functions of a verb, `<name>` and `<name>_request`, are
called by their names (`delaymq._verbs.calls`): the comments in Rust describe them. Here are only those that are called
in another way.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, final

from delaymq._core import Body, Receipt, Request, Store

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

StagedRunTold: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, digest and rows of a staged run."""

def load_request(job: str, runs: list[StagedRunTold], /) -> Request: ...
def cursor_behind(receipt: Receipt, /) -> str:
    """The cursor of a list that ended with the entry of this receipt."""

def status(store: Store, /) -> dict[str, Any]:
    """The fields of `delaymq.Status`; also when the store is closed."""

def expire(store: Store, subject: str, older_than_ms: int, /) -> int:
    """Expires ready messages that were due this long ago and that no consumer holds; returns how many."""

def check_subject(name: str, /) -> None:
    """Refuses an invalid name of a subject."""
