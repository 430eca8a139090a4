# ruff: noqa: N818 - a name says what happened, as the enum of the core does
"""Everything that delaymq raises.

::

    DelaymqError
    ├── WrongType            (TypeError)          an argument has the wrong type
    ├── InvalidArgument      (ValueError)         an argument has a value that is refused
    │   ├── TooLarge                              an argument is over its limit
    │   └── ForeignReceipt                        a receipt that another store gave out
    └── StoreError
        ├── StorageError     (OSError)            the operating system refused a call
        │   ├── DiskFull                          no room for new messages, errno ENOSPC
        │   └── PermissionDenied (PermissionError)
        ├── MissingFile      (FileNotFoundError)  a file of the store is gone
        ├── NotAStore                             the folder holds something else
        ├── NewerFormat                           written by a later release
        ├── Corrupt                               durable bytes are damaged
        │   └── DamagedPayload                    one message's payload is damaged
        ├── Locked                                another process, or this one, has the store open
        ├── Poisoned                              a write failed; open the store again
        ├── Closed                                the store or subscription is closed
        ├── ForkedProcess                         a forked child used its parent's store
        ├── KeyTaken                              a pending message has the key
        ├── NamesFull                             no room for one more key, or id
        ├── WouldVanish                           what is pending would be gone by what was asked
        ├── AlreadySettled                        a message was settled a second time
        ├── WrongLoop        (RuntimeError)       an asyncio store was used from elsewhere
        ├── TimedOut         (TimeoutError)       a wait ended before what it waited for
        ├── Unreachable      (ConnectionError)    no server answers at an address
        ├── AmbiguousError                        the answer was lost: it may be done or not
        ├── ProtocolError                         the other side is no delaymq server, or of another version
        ├── Unauthorized                          the server wants a token, or another one
        ├── Busy                                  too much is under way in the server; try again later
        └── Stopping                              the server is stopping

An error that refuses an argument means that nothing was stored. The details are attributes, so
that no program has to read the text: `path`, `offset`, `expected` and `found` name the place and
the difference, `argument` and `index` the argument and its place in a batch; what does not apply
is None.
"""

from __future__ import annotations

import errno as _errno
from typing import Any

__all__ = [
    "AlreadySettled",
    "AmbiguousError",
    "Busy",
    "Closed",
    "Corrupt",
    "DamagedPayload",
    "DelaymqError",
    "DiskFull",
    "ForeignReceipt",
    "ForkedProcess",
    "InvalidArgument",
    "KeyTaken",
    "Locked",
    "MissingFile",
    "NamesFull",
    "NewerFormat",
    "NotAStore",
    "PermissionDenied",
    "Poisoned",
    "ProtocolError",
    "Stopping",
    "StorageError",
    "StoreError",
    "TimedOut",
    "TooLarge",
    "Unauthorized",
    "Unreachable",
    "WouldVanish",
    "WrongLoop",
    "WrongType",
]


class DelaymqError(Exception):
    """The root of all errors of delaymq.

    Attributes:
        store: The folder of the store, where an open was refused, or None.
        path: The file or folder that the error speaks of, relative to the store, or None.
        offset: The byte offset in that file, or None.
        expected: What belongs there, or None.
        found: What is there, or None.
        argument: The name of the argument that was refused, or None.
        index: The place of the refused message in its batch, from 0, or None.
        reason: What went wrong before, or why a file is needed, or None.
    """

    store: str | None = None
    path: str | None = None
    offset: int | None = None
    expected: str | None = None
    found: str | None = None
    argument: str | None = None
    index: int | None = None
    reason: str | None = None

    def __init__(self, message: str = "", **details: object) -> None:
        """Keeps the message and sets each detail as an attribute."""
        super().__init__(message or type(self).__doc__ or "")
        vars(self).update(details)

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self), dict(vars(self))))


def _rebuild(kind: type[DelaymqError], message: str, details: dict[str, Any]) -> DelaymqError:
    """Makes an error again from its parts, for pickle."""
    return kind(message, **details)


class WrongType(DelaymqError, TypeError):
    """An argument has the wrong type; nothing was stored."""


class InvalidArgument(DelaymqError, ValueError):
    """An argument has a value that is refused; nothing was stored."""


class TooLarge(InvalidArgument):
    """An argument is over its limit; nothing was stored.

    Attributes:
        limit: The limit, in the unit of the argument (bytes, messages or milliseconds).
    """

    limit: int | None = None


class ForeignReceipt(InvalidArgument):
    """The receipt was given out by another store; nothing was cancelled. Open that one and cancel there."""


class StoreError(DelaymqError):
    """The store cannot do what was asked, for a reason that is not the arguments'."""


class StorageError(StoreError, OSError):
    """The operating system refused a call on a file of the store; `errno` says which way."""

    def __init__(self, message: str = "", *, errno: int = _errno.EIO, **details: object) -> None:
        """Keeps the message, the system's error number and each detail."""
        OSError.__init__(self, errno, message or type(self).__doc__)
        vars(self).update(details)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self), {**vars(self), "errno": self.errno}))


class DiskFull(StorageError):
    """There is no room for new messages; what is stored goes on being delivered.

    Publishing is accepted again by itself once there is room.
    """

    def __init__(self, message: str = "", *, errno: int = _errno.ENOSPC, **details: object) -> None:
        """As its base, with ENOSPC."""
        super().__init__(message, errno=errno, **details)


class KeyTaken(StoreError):
    """The key is taken by a message that is pending, and `if_exists` is `"error"`; nothing was stored.

    `found` is the receipt of the message that has it, as text; `index` the place of the one that was refused.
    """


class NamesFull(StoreError):
    """There is no room for one more key, or message id; nothing was stored. `argument` says which.

    Attributes:
        limit: How many there are at most.
    """

    limit: int | None = None


class WouldVanish(StoreError):
    """Pending messages would be gone by what was asked: they are whole nowhere. Nothing was changed.

    Attributes:
        count: How many they are.
        sequences: Some of them.
    """

    count: int | None = None
    sequences: tuple[int, ...] = ()


class PermissionDenied(StorageError, PermissionError):
    """The operating system does not allow this process to use a file of the store."""


class MissingFile(StoreError, FileNotFoundError):
    """A file that the store needs is not there; `reason` says who needs it."""

    def __init__(self, message: str = "", **details: object) -> None:
        """Keeps the message, ENOENT and each detail."""
        OSError.__init__(self, _errno.ENOENT, message or type(self).__doc__)
        vars(self).update(details)


class NotAStore(StoreError):
    """The folder holds something else than a store; nothing in it was touched."""


class NewerFormat(StoreError):
    """The store was written by a later release; nothing in it was touched."""


class Corrupt(StoreError):
    """Durable bytes are damaged: `path`, `offset`, `expected` and `found` name the place."""


class DamagedPayload(Corrupt):
    """The payload of one message fails its check: it is voided, never delivered.

    Attributes:
        sequence: The place of the message in the store's order.
    """

    sequence: int | None = None


class Locked(StoreError):
    """Another process has the store open, or this one has it open already; nothing was touched."""


class Poisoned(StoreError):
    """A write or sync failed earlier: the store refuses everything until it is opened again."""


class Closed(StoreError):
    """The store or the subscription is closed."""


class ForkedProcess(StoreError):
    """A forked child used the store of its parent; nothing was touched.

    Attributes:
        owner: The process that opened the store.
        caller: The process that called.
    """

    owner: int | None = None
    caller: int | None = None


class AlreadySettled(StoreError):
    """The message was acknowledged, given back or put away before: settle each message once."""


class WrongLoop(StoreError, RuntimeError):
    """An asyncio store was used from another event loop or thread than the one that opened it."""


class TimedOut(StoreError, TimeoutError):
    """What was waited for did not happen in time; it may still happen."""

    def __init__(self, message: str = "", **details: object) -> None:
        """Keeps the message, ETIMEDOUT and each detail."""
        OSError.__init__(self, _errno.ETIMEDOUT, message or type(self).__doc__)
        vars(self).update(details)


class Unreachable(StoreError, ConnectionError):
    """No server answers at that address; what was asked was not done. `reason` says what the system said."""

    def __init__(self, message: str = "", **details: object) -> None:
        """Keeps the message, ECONNREFUSED and each detail."""
        OSError.__init__(self, _errno.ECONNREFUSED, message or type(self).__doc__)
        vars(self).update(details)


class AmbiguousError(StoreError):
    """The connection was lost, or the time was over, before the answer came: it may have been done or not.

    Of a publish: the message may be stored. Of a flush: what was acknowledged may come again.
    """


class ProtocolError(StoreError):
    """What the other side sent is not what a delaymq server of this version sends."""


class Unauthorized(StoreError):
    """The server wants a token, or the one that was given is wrong."""


class Busy(StoreError):
    """Too much is under way in the server; nothing was done, and the same may be asked again later."""


class Stopping(StoreError):
    """The server is stopping; nothing was done."""
