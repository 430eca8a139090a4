"""delaymq stores messages durably and delivers each one when it is due, never early.

::

    import delaymq

    with delaymq.open("./data") as store:
        receipt = store.publish("order.timeout", b"42", delay=30)
        with store.subscribe("order.timeout", group="billing") as messages:
            for message in messages:
                with message:  # acknowledged at the end of the block; given back if it raises
                    print(message.body)

The whole public interface on one page; `help(delaymq.Store)` and so on give the details:

    open(path, *, durability="disk", create=True, …) -> Store         `durability="os"` is faster
    open_async(path, *, …) -> AsyncStore             awaited, or entered with `async with`
    connect(url, *, token, timeout, deduplicate, …) -> Client       a store over TCP
    connect_async(url, *, …) -> AsyncClient          awaited, or entered with `async with`
    backoff(first, factor, longest, jitter)          delays for `message.nack(…)` by `attempt`
    inspect(path) -> Inspection, snapshot(path) -> Snapshot     of a folder, open or not; its tables
    stop_on_signals(*subscriptions)                  SIGINT (Ctrl-C) and SIGTERM end loops cleanly

Store
    publish(subject, body, *, delay | at | level, jitter, tags, attributes, message_id,
            key, if_exists="replace" | "keep" | "error", deduplicate) -> Receipt
    publish_many(subject, bodies, delays) -> Receipts      or publish_many([Publish(…), …])
    cancel(receipt) -> Outcome                             cancel_many(receipts)
    move(receipt, *, delay | at) -> Moved                  move_many(receipts, *, delay | at)
    cancel_key, move_key, look_up_key (subject, key)       cancel_keys, move_keys (subject, keys)
    look_up(receipt) -> LookedUp, with its Fate            look_up_many(receipts)
    pending(subject, prefix=, due_from=, due_before=, after=) -> iterator of Pending
    pending_counts(subject, prefix=) -> {subject: int}     subjects() -> [Subject]
    forecast(subject, due_from=, due_before=, seconds=) -> Forecast, of Slot
    recur(subject, body, *, name, every | cron, zone="UTC", start, catch_up) -> Recurring
    recurring(subject) -> [Recurring]    end_recurring(subject, name)    load(job, runs) -> Loaded
    subscribe(subject | [subjects] | "prefix*", *, group, start="unfinished" | "earliest" | "latest"
              | time | PublishedSince(time) | receipt, in_flight_max=256, handle_within=None,
              tags=any_of|all_of, attributes={name: value|StartsWith(…)|Present()}) -> Subscription
    status() -> Status   clock() -> ClockStatus   accept_clock(ahead_ms)   pin(duration) -> Pin
    open(…, progress=function), called with Progress   checkpoint()   close()   path   is_open
    groups() -> [Group]      start_group, reset_group, remove_group (subject, group)
    consumers(subject, group) -> [Consumer]      end_consumer(subject, group, consumer)
    dead_letters(subject, group) -> [DeadLetter]   redrive(subject, …)   expire(subject, older_than)

Client has the same methods except checkpoint, pin and path; AsyncClient has them as coroutines.

Subscription
    get(timeout) -> Message or None          for message in subscription: …
    batches(max_messages, wait)              lists of messages: faster
    ack(messages)   nack(messages, delay)   dead_letter(messages, reason)    many at once
    flush(timeout)   stop()   close()   subject   subjects   group   in_flight_max

Message
    ack()   nack(delay)   dead_letter(reason)   extend(duration)   with message: …     see settled
    subject   body   message_id   tags   attributes   receipt   sequence   key
    due   published   lateness   attempt   redelivered

AsyncStore, AsyncSubscription and AsyncMessage have the same methods as coroutines. DelayQueue and
AsyncDelayQueue are the protocols of both. All errors are in `delaymq.errors`, under DelaymqError.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from delaymq import errors
from delaymq._core import __version__
from delaymq._store.retention import Pin
from delaymq.administration import Consumer, DeadLetter, Group, Subject
from delaymq.bulk_load import Loaded
from delaymq.errors import *  # noqa: F403 - all of them, which their module lists
from delaymq.filters import Present, StartsWith, all_of, any_of
from delaymq.forecast import Forecast, Slot
from delaymq.message import Message, Publish
from delaymq.pending import Fate, LookedUp, Pending
from delaymq.receipt import Moved, Outcome, Receipt, Receipts
from delaymq.recurring import Recurring
from delaymq.starts import PublishedSince
from delaymq.status import ClockStatus
from delaymq.store import Progress, Status, Store
from delaymq.store import open_store as open  # noqa: A004 - `delaymq.open` reads as `gzip.open` does
from delaymq.subscription import Subscription

if TYPE_CHECKING:
    from delaymq._asyncio.message import AsyncMessage
    from delaymq._asyncio.store import AsyncStore, open_async
    from delaymq._asyncio.subscription import AsyncSubscription
    from delaymq.client.event_loop.client import AsyncClient, connect_async
    from delaymq.client.threads.client import Client, connect
    from delaymq.inspection import Inspection, inspect
    from delaymq.protocols import AsyncDelayQueue, DelayQueue
    from delaymq.retries import backoff
    from delaymq.signals import stop_on_signals
    from delaymq.tables import Snapshot, snapshot

__all__ = [
    "AsyncClient",
    "AsyncDelayQueue",
    "AsyncMessage",
    "AsyncStore",
    "AsyncSubscription",
    "Client",
    "ClockStatus",
    "Consumer",
    "DeadLetter",
    "DelayQueue",
    "Fate",
    "Forecast",
    "Group",
    "Inspection",
    "Loaded",
    "LookedUp",
    "Message",
    "Moved",
    "Outcome",
    "Pending",
    "Pin",
    "Present",
    "Progress",
    "Publish",
    "PublishedSince",
    "Receipt",
    "Receipts",
    "Recurring",
    "Slot",
    "Snapshot",
    "StartsWith",
    "Status",
    "Store",
    "Subject",
    "Subscription",
    "__version__",
    "all_of",
    "any_of",
    "backoff",
    "connect",
    "connect_async",
    "errors",
    "inspect",
    "open",
    "open_async",
    "snapshot",
    "stop_on_signals",
]
__all__ += errors.__all__
__all__.sort()

# These names are imported on first use: importing asyncio alone takes longer than importing all the rest.
_LAZY_MODULES = {
    "AsyncClient": "delaymq.client.event_loop.client",
    "AsyncDelayQueue": "delaymq.protocols",
    "AsyncMessage": "delaymq._asyncio.message",
    "AsyncStore": "delaymq._asyncio.store",
    "AsyncSubscription": "delaymq._asyncio.subscription",
    "Client": "delaymq.client.threads.client",
    "DelayQueue": "delaymq.protocols",
    "Inspection": "delaymq.inspection",
    "Snapshot": "delaymq.tables",
    "backoff": "delaymq.retries",
    "connect": "delaymq.client.threads.client",
    "connect_async": "delaymq.client.event_loop.client",
    "inspect": "delaymq.inspection",
    "open_async": "delaymq._asyncio.store",
    "snapshot": "delaymq.tables",
    "stop_on_signals": "delaymq.signals",
}


def __getattr__(name: str) -> object:
    module = _LAZY_MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'delaymq' has no attribute {name!r}", name=name, obj=import_module(__name__))
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES})
