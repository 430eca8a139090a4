"""What the ledger has told about one message, and about one message in one group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checker.terms import Key

NEVER_MS = -(1 << 62)


class Share:
    """One message in one group."""

    __slots__ = (
        "acknowledge_open",
        "acknowledged",
        "acknowledged_epoch",
        "acknowledges",
        "came_back",
        "consumer",
        "deliveries",
        "first_ms",
        "is_dead",
        "last_ms",
        "life",
        "life_deliveries",
        "not_before_ms",
        "not_before_stops",
        "others",
        "returns",
        "unmarked",
    )

    def __init__(self) -> None:
        self.deliveries = 0
        self.unmarked = 0
        """Deliveries that were said to be the first, or of which nothing was said."""
        self.acknowledges = 0
        """Acknowledgements that were sent."""
        self.acknowledge_open = 0
        """Those of them that have no result yet."""
        self.acknowledged = 0
        """Those that were answered durable."""
        self.acknowledged_epoch = 0
        self.returns = 0
        """How often it was given back and did not come again since."""
        self.came_back = 0
        """How often it came because it was given back."""
        self.is_dead = False
        self.consumer = ""
        """Who had it last."""
        self.others: list[str] | None = None
        """Who had other copies of it before, where there may be several."""
        self.first_ms = NEVER_MS
        self.last_ms = NEVER_MS
        self.life = -1
        """Between which two stops it came last, and how often it did between these."""
        self.life_deliveries = 0
        self.not_before_ms = NEVER_MS
        self.not_before_stops = -1
        """Until which stop the time above holds; -1: whatever stops came."""


class Message:
    """One message."""

    __slots__ = (
        "asked_ms",
        "attempts",
        "batch",
        "cancel_open",
        "cancelled",
        "digest",
        "doubtful_cancels",
        "doubtful_dues",
        "due_ms",
        "is_acknowledged",
        "is_deduplicated",
        "is_open",
        "key",
        "line",
        "move_is_repeated",
        "move_open",
        "moves_asked",
        "refused",
        "replaces",
        "sequence",
        "shares",
        "subject",
    )

    def __init__(self, line: int, subject: str, digest: str, due_ms: int, batch: str | None) -> None:
        self.line = line
        self.subject = subject
        self.digest = digest
        self.due_ms = due_ms
        """The earliest of all its attempts, or the time that it was moved to."""
        self.batch = batch
        self.attempts = 1
        self.refused = 0
        self.is_open = True
        """The last attempt has no result yet."""
        self.is_acknowledged = False
        self.cancel_open = 0
        self.cancelled = 0
        """Cancels that were answered `done`."""
        self.doubtful_cancels = 0
        self.move_open: int | None = None
        """The time of a move that has no result yet."""
        self.move_is_repeated = False
        """The same was asked for before: its result may be that of the first time."""
        self.moves_asked: set[tuple[str, int]] = set()
        self.doubtful_dues: list[int] = []
        """Times of moves of which nobody knows what came of them."""
        self.shares: dict[str, Share] = {}
        self.is_deduplicated = False
        """However often it is published, it is one."""
        self.sequence: int | None = None
        """Of one that is deduplicated: under which it was answered as stored."""
        self.key: Key | None = None
        self.replaces = False
        self.asked_ms = NEVER_MS
        """When it was about to be published under its key."""

    @property
    def copies(self) -> int:
        """How many of it the server may have."""
        copies = self.attempts - self.refused
        return min(copies, 1) if self.is_deduplicated else copies

    @property
    def earliest_ms(self) -> int:
        """When it may come at the earliest, whatever became of the moves that are not told."""
        is_open = [] if self.move_open is None else [self.move_open]
        return min(self.due_ms, *is_open, *self.doubtful_dues) if is_open or self.doubtful_dues else self.due_ms

    @property
    def is_ambiguous(self) -> bool:
        return not self.is_acknowledged and self.copies > 0

    @property
    def is_owed(self) -> bool:
        """True if each group must have it in the end."""
        doubtful = self.doubtful_cancels + self.cancel_open
        return self.is_acknowledged and not self.cancelled and not doubtful

    @property
    def has_shown(self) -> bool:
        """True if something proves that the server had it."""
        shown = any(share.deliveries or share.is_dead for share in self.shares.values())
        return shown or self.cancelled > 0

    def share(self, group: str) -> Share:
        return self.shares.setdefault(group, Share())
