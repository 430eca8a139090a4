"""delaymq holds messages until they are due and then hands them over: durably, never early.

::

    import delaymq

    with delaymq.open("./data") as store:
        receipt = store.publish("order.timeout", b"42", delay=30)
        with store.subscribe("order.timeout", group="billing") as messages:
            for message in messages:
                with message:
                    print(message.body)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from delaymq import errors
from delaymq._core import __version__
from delaymq.administration import DeadLetter, Group, Subject
from delaymq.errors import (
    Closed,
    Corrupt,
    DamagedPayload,
    DelaymqError,
    DiskFull,
    ForkedProcess,
    InvalidArgument,
    Locked,
    MissingFile,
    NewerFormat,
    NotAStore,
    PermissionDenied,
    Poisoned,
    StorageError,
    StoreError,
    TimedOut,
    TooLarge,
    WrongLoop,
    WrongType,
)
from delaymq.inspection import Inspection, inspect
from delaymq.message import Message, Publish
from delaymq.receipt import Outcome, Receipt, Receipts
from delaymq.store import Progress, Status, Store
from delaymq.store import open_store as open  # noqa: A004 - `delaymq.open` reads as `gzip.open` does
from delaymq.subscription import Subscription

if TYPE_CHECKING:
    from delaymq.async_message import AsyncMessage
    from delaymq.async_store import AsyncStore, open_async
    from delaymq.async_subscription import AsyncSubscription

__all__ = [
    "AsyncMessage",
    "AsyncStore",
    "AsyncSubscription",
    "Closed",
    "Corrupt",
    "DamagedPayload",
    "DeadLetter",
    "DelaymqError",
    "DiskFull",
    "ForkedProcess",
    "Inspection",
    "InvalidArgument",
    "Locked",
    "Message",
    "MissingFile",
    "NewerFormat",
    "NotAStore",
    "Outcome",
    "PermissionDenied",
    "Poisoned",
    "Progress",
    "Publish",
    "Receipt",
    "Receipts",
    "Status",
    "StorageError",
    "Store",
    "StoreError",
    "Subject",
    "Subscription",
    "TimedOut",
    "TooLarge",
    "WrongLoop",
    "WrongType",
    "__version__",
    "errors",
    "inspect",
    "open",
    "open_async",
]

# What imports asyncio is imported when it is asked for: a plain program need not pay for it.
_LATER = {
    "AsyncMessage": "delaymq.async_message",
    "AsyncStore": "delaymq.async_store",
    "AsyncSubscription": "delaymq.async_subscription",
    "open_async": "delaymq.async_store",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'delaymq' has no attribute {name!r}", name=name, obj=import_module(__name__))
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
