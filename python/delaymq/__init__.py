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
    WrongType,
)
from delaymq.message import Message, Publish
from delaymq.receipt import Outcome, Receipt, Receipts
from delaymq.store import Progress, Status, Store
from delaymq.store import open_store as open  # noqa: A004 - `delaymq.open` reads as `gzip.open` does
from delaymq.subscription import Subscription

__all__ = [
    "Closed",
    "Corrupt",
    "DamagedPayload",
    "DeadLetter",
    "DelaymqError",
    "DiskFull",
    "ForkedProcess",
    "Group",
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
    "WrongType",
    "__version__",
    "errors",
    "open",
]
