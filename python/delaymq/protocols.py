# ruff: noqa: D102 - Store, AsyncStore and their subscriptions document the methods
"""Protocols of a delay queue, whether its store is in this process or behind a server.

Annotate with them, and use a `Store` in tests and a `Client` in production, for example::

    def remind(queue: DelayQueue, order: str) -> None:
        queue.publish("order.reminder", order.encode(), delay=timedelta(days=30))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, overload, runtime_checkable

from delaymq._arguments.subjects import subscribed
from delaymq._verbs import recurring
from delaymq._verbs.calls import with_options_of
from delaymq.message import Publish

if TYPE_CHECKING:
    from delaymq._arguments.subjects import Subjects, SubscribeOptions
    from delaymq._asyncio.message import AsyncMessage
    from delaymq._verbs.recurring import RecurOptions
    from delaymq._verbs.storing import ColumnOptions
    from delaymq.durations import Duration
    from delaymq.message import Message, PublishOptions
    from delaymq.pending import LookedUp
    from delaymq.receipt import Moved, Outcome, Receipt, Receipts
    from delaymq.recurring import Recurring

__all__ = ["AsyncConsumer", "AsyncDelayQueue", "Consumer", "DelayQueue", "Subscribing"]


@runtime_checkable
class Consumer(Protocol):
    """Consumes one subject, or many, for a group. `delaymq.Subscription` documents the methods."""

    @property
    def subject(self) -> str: ...
    @property
    def subjects(self) -> tuple[str, ...]: ...
    @property
    def group(self) -> str: ...
    @property
    def in_flight_max(self) -> int: ...
    def get(self, timeout: Duration | None = None) -> Message | None: ...
    def batches(self, max_messages: int = 256, wait: Duration | None = None) -> Iterator[list[Message]]: ...
    def __iter__(self) -> Iterator[Message]: ...
    def ack(self, messages: Iterable[Message]) -> None: ...
    def nack(self, messages: Iterable[Message], delay: Duration = 0) -> None: ...
    def dead_letter(self, messages: Iterable[Message], reason: str) -> None: ...
    def flush(self, timeout: Duration | None = None) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class DelayQueue(Protocol):
    """Stores messages and delivers them when they are due. `delaymq.Store` documents the methods.

    One `publish_many` takes 8 MiB over TCP and 32 MiB in a store of this process; stay below 8 MiB to support both.
    """

    @with_options_of(Publish)
    def publish(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[PublishOptions]
    ) -> Receipt: ...
    @overload
    def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts: ...
    @overload
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    def cancel(self, receipt: Receipt) -> Outcome: ...
    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]: ...
    def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved: ...
    def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]: ...
    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome: ...
    def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved: ...
    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]: ...
    def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]: ...
    def look_up_key(self, subject: str, key: str) -> LookedUp: ...
    @with_options_of(recurring.recur)
    def recur(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[RecurOptions]
    ) -> Recurring: ...
    def end_recurring(self, subject: str, name: str) -> bool: ...
    def recurring(self, subject: str | None = None) -> list[Recurring]: ...
    @with_options_of(subscribed)
    def subscribe(self, subject: Subjects, **options: Unpack[SubscribeOptions]) -> Consumer: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class AsyncConsumer(Protocol):
    """As `Consumer`, for an event loop."""

    @property
    def subject(self) -> str: ...
    @property
    def subjects(self) -> tuple[str, ...]: ...
    @property
    def group(self) -> str: ...
    @property
    def in_flight_max(self) -> int: ...
    async def get(self, timeout: Duration | None = None) -> AsyncMessage | None: ...  # noqa: ASYNC109 - as Consumer
    def batches(self, max_messages: int = 256, wait: Duration | None = None) -> AsyncIterator[list[AsyncMessage]]: ...
    def __aiter__(self) -> AsyncIterator[AsyncMessage]: ...
    def ack(self, messages: Iterable[AsyncMessage]) -> None: ...
    def nack(self, messages: Iterable[AsyncMessage], delay: Duration = 0) -> None: ...
    def dead_letter(self, messages: Iterable[AsyncMessage], reason: str) -> None: ...
    async def flush(self, timeout: Duration | None = None) -> None: ...  # noqa: ASYNC109 - as Consumer
    def stop(self) -> None: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Subscribing(Protocol):
    """The result of `AsyncDelayQueue.subscribe`: await or enter it to get the consumer."""

    def __await__(self) -> Generator[Any, Any, AsyncConsumer]: ...
    async def __aenter__(self) -> AsyncConsumer: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class AsyncDelayQueue(Protocol):
    """As `DelayQueue`, for an event loop."""

    @with_options_of(Publish)
    async def publish(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[PublishOptions]
    ) -> Receipt: ...
    @overload
    async def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts: ...
    @overload
    async def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    async def cancel(self, receipt: Receipt) -> Outcome: ...
    async def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]: ...
    async def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved: ...
    async def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]: ...
    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome: ...
    async def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved: ...
    async def cancel_keys(
        self, subject: str, keys: Iterable[str], *, command_id: str | None = None
    ) -> list[Outcome]: ...
    async def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]: ...
    async def look_up_key(self, subject: str, key: str) -> LookedUp: ...
    @with_options_of(recurring.recur)
    async def recur(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[RecurOptions]
    ) -> Recurring: ...
    async def end_recurring(self, subject: str, name: str) -> bool: ...
    async def recurring(self, subject: str | None = None) -> list[Recurring]: ...
    @with_options_of(subscribed)
    def subscribe(self, subject: Subjects, **options: Unpack[SubscribeOptions]) -> Subscribing: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
