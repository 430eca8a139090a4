"""Verbs that store many messages at once: a batch, and a bulk load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypedDict, TypeVar, cast

from delaymq._arguments.argument_errors import unexpected, wrong_type
from delaymq._arguments.batches import listed
from delaymq._verbs.calls import REPEATS, AsyncPart, Call, Part
from delaymq.bulk_load import Loaded
from delaymq.durations import Duration
from delaymq.errors import WrongType
from delaymq.message import IfExists, Publish

if TYPE_CHECKING:
    from delaymq._arguments.columns import Moments
    from delaymq._core import Columns
    from delaymq.loading import StagedRun

Answer_co = TypeVar("Answer_co", covariant=True)
Body: TypeAlias = bytes | bytearray | memoryview

RunRow: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, digest and rows of a staged run."""


class BatchPublisher(Protocol[Answer_co]):
    """The two calls of the core, or of a request to a server, that publish many messages."""

    def publish_columns(self, columns: Columns, /) -> Answer_co:
        """Publishes a message for each body."""

    def publish_messages(self, messages: list[Publish], with_ids: bool, /) -> Answer_co:
        """Publishes messages. The core reads fields of plain types, and asks `row_of` for all others."""


class ColumnOptions(TypedDict, total=False):
    """The options of `publish_many` for columns, which documents them."""

    at: Moments | None
    keys: Sequence[str | None] | None
    if_exists: IfExists | None
    jitter: Duration | None


def publish_many(
    core: BatchPublisher[Answer_co],
    with_ids: bool,
    messages: str | Sequence[str] | Iterable[Publish],
    bodies: Sequence[Body] | None,
    delays: Duration | Sequence[Duration],
    /,
    *,
    at: Moments | None = None,
    keys: Sequence[str | None] | None = None,
    if_exists: IfExists | None = None,
    jitter: Duration | None = None,
) -> Answer_co:
    """`publish_many`: what the core answers, or the request for a server.

    With `with_ids`, each message is deduplicated by its id; a message without one has a new one.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    if bodies is not None:
        from delaymq._arguments.publishes import columns_of  # noqa: PLC0415 - an import of delaymq is to be quick

        options = at, keys, if_exists, jitter
        return core.publish_columns(columns_of(messages, bodies, delays, options, with_ids=with_ids))
    anything: object = messages
    if isinstance(anything, str):
        raise WrongType(
            "bodies: expected a sequence, found nothing", argument="bodies", expected="a sequence", found="nothing"
        )
    for option, value in (("at", at), ("keys", keys), ("if_exists", if_exists), ("jitter", jitter)):
        if value is not None:
            raise unexpected(option, "one in each Publish", type(value).__name__)
    if isinstance(anything, bytes) or not isinstance(anything, Iterable):
        raise wrong_type("messages", "a list of Publish, or a subject and bodies", messages)
    return core.publish_messages(list(cast("Iterable[Publish]", messages)), with_ids)


def load(job: str, runs: Iterable[StagedRun]) -> Call[Loaded]:
    """`load`; the same job has the same answer."""
    return Call("load", (job, run_rows(runs)), lambda answer: Loaded(*answer), REPEATS)


class Loads(Part):
    """The method that loads staged runs."""

    def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none of them, once for each job.

        ::

            from delaymq.loading import stage

            loaded = store.load("orders-2030-01-01", stage(store.path, table))

        All bytes of the runs are read and checked first, which takes seconds for a million messages; deliveries
        continue meanwhile. Messages that are due already become ready soon after. A load returns no receipts: lists and
        deliveries have them.

        The runs must have been staged in the folder of the store, or of the server's store: a client sends only their
        names and checksums, and repeats a lost request. Loads of one server run one after the other, so the client's
        `timeout` must be long enough for large ones.

        Args:
            job: Identifies the load, with the characters of a subject. A job is remembered for seven days: a second
                load of it stores nothing and has the same answer, whichever runs it names and however the first attempt
                ended.
            runs: The staged runs, 1 to 4,096, with 268,435,456 messages in all, staged twenty hours ago at most.

        Returns:
            The result, once it is as durable as the store was opened for.

        Raises:
            WrongType: `job` is not a str, or `runs` is not an iterable of `StagedRun`; nothing was stored.
            InvalidArgument: `job` is refused, or stored another number of messages before; `runs` is empty, names a run
                twice, or names one that another job has loaded or that was staged too long ago; a message is `due`
                later than the store accepts. Nothing was stored.
            TooLarge: There are too many `runs`, `messages` or `subjects`; nothing was stored.
            MissingFile, Corrupt, NewerFormat: A run is missing, has changed since it was staged, or was staged by a
                later release; nothing was stored.
            NamesFull: 65,536 jobs are remembered, or too many runs were loaded within a day; nothing was stored.
            DiskFull, Closed, ForkedProcess: As `publish`.
            Poisoned: As `publish`. After the store is opened again, the same load has the answer.
            AmbiguousError: No answer to a client came in time, or a repeated request was refused: the messages may or
                may not be stored. The same call tells later.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(load(job, runs))


class AsyncLoads(AsyncPart):
    """As `Loads`, for coroutines. Each method raises the errors of the plain one, and WrongLoop."""

    async def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Store.load`.

        If the coroutine is cancelled while it waits, the load is completed, or was never begun; the same load tells
        which.
        """
        return await self._run(load(job, runs))


def run_rows(runs: Iterable[StagedRun]) -> list[RunRow]:
    """Staged runs as the core takes them.

    Raises:
        WrongType, InvalidArgument: Item `index` is not a staged run.
    """
    from delaymq.loading import checked_run  # noqa: PLC0415 - only programs that load pay for the import

    rows = list[RunRow]()
    for index, found in enumerate(listed(runs, "runs", "an iterable of StagedRun")):
        run = checked_run(found, "runs", index)
        rows.append((run.name, run.bytes, run.digest, run.rows))
    return rows
