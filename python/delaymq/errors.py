# ruff: noqa: N818 - a name says what happened, as the enum of the core does
"""The exceptions of delaymq.

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
        ├── MissingFile      (FileNotFoundError)  a file of the store is missing
        ├── NotAStore                             the folder holds something else
        ├── NewerFormat                           written by a later release
        ├── Corrupt                               durable bytes are damaged
        │   └── DamagedPayload                    one message's payload is damaged
        ├── Locked                                another process, or this one, has the store open
        ├── Poisoned                              a write failed; open the store again
        ├── Closed                                the store or subscription is closed
        ├── ForkedProcess                         a forked child used its parent's store
        ├── KeyTaken                              a pending message has the key
        ├── NamesFull                             no room for another key or id
        ├── NotEnoughCopies                       too few nodes have a copy of the store
        ├── WouldVanish                           pending messages would be lost by the call
        ├── AlreadySettled                        a message was settled a second time
        ├── HoldExpired                           a message was held for longer than `handle_within`
        ├── WrongLoop        (RuntimeError)       an asyncio store was used from elsewhere
        ├── TimedOut         (TimeoutError)       a wait was over before its event
        ├── Unreachable      (ConnectionError)    no server answers at an address
        │   └── NotPrimary                        no node is the primary of its copies
        ├── AmbiguousError                        the answer was lost: it may be done or not
        ├── ProtocolError                         the peer is no delaymq server, or of another version
        ├── Unauthorized                          the server requires a token, or another one
        ├── Busy                                  the server has too much in progress; try again later
        └── Stopping                              the server is stopping

If an argument is refused, nothing was stored. The details of an error are attributes, so that no
program has to parse the text: `path`, `offset`, `expected` and `found` describe the place and the
difference, `argument` and `index` the argument and its place in a batch. Attributes that do not
apply are None.
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
    "HoldExpired",
    "InvalidArgument",
    "KeyTaken",
    "Locked",
    "MissingFile",
    "NamesFull",
    "NewerFormat",
    "NotAStore",
    "NotEnoughCopies",
    "NotPrimary",
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
    """The base class of all errors of delaymq.

    Attributes:
        store: The folder of the store, if an open was refused, or None.
        path: The file or folder that the error is about, relative to the store, or None.
        offset: The byte offset in that file, or None.
        expected: The expected value, or None.
        found: The value that was found, or None.
        argument: The name of the argument that was refused, or None.
        index: The place of the refused message in its batch, from 0, or None.
        reason: The cause, such as an earlier failure, or why a file is needed, or None.
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
        """Stores the message, and each detail as an attribute."""
        super().__init__(message or type(self).__doc__ or "")
        vars(self).update(details)

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self), dict(vars(self))))


def _rebuild(kind: type[DelaymqError], message: str, details: dict[str, Any]) -> DelaymqError:
    """Unpickles an error from its parts."""
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
    """The receipt was given out by another store; nothing was cancelled. Open that store and cancel there."""


class StoreError(DelaymqError):
    """The store cannot do what was asked, for a reason other than the arguments."""


class StorageError(StoreError, OSError):
    """The operating system refused a call on a file of the store; `errno` is its error number."""

    def __init__(self, message: str = "", *, errno: int = _errno.EIO, **details: object) -> None:
        """Stores the message, the system's error number and each detail."""
        OSError.__init__(self, errno, message or type(self).__doc__)
        vars(self).update(details)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self), {**vars(self), "errno": self.errno}))


class DiskFull(StorageError):
    """There is no room for new messages; stored messages are still delivered.

    Publishes are accepted again once there is room.
    """

    def __init__(self, message: str = "", *, errno: int = _errno.ENOSPC, **details: object) -> None:
        """As its base, with ENOSPC."""
        super().__init__(message, errno=errno, **details)


class KeyTaken(StoreError):
    """A pending message has the key, and `if_exists` is `"error"`; nothing was stored.

    `found` is the receipt of the message that has the key, as text; `index` is the place of the refused message.
    """


class NamesFull(StoreError):
    """There is no room for another key or message id; nothing was stored. `argument` says which.

    Attributes:
        limit: The maximum number.
    """

    limit: int | None = None


class NotEnoughCopies(StoreError):
    """Too few nodes have a copy of what the store writes.

    If `maybe_stored` is False, the request was refused and nothing was stored: call again later. If it is True, the
    request was executed on too few copies. It is stored unless they are lost, so a repeated publish can be a second
    message, unless it has an id and `deduplicate`.

    Attributes:
        copies: The number of nodes that have a copy.
        min_copies: The number that the group demands; for a load, that of the nodes that must have its files.
        maybe_stored: True if the request may have been executed, False if nothing was done.
    """

    copies: int | None = None
    min_copies: int | None = None
    maybe_stored: bool = False

    def __init__(self, message: str = "", *, maybe_stored: object = False, **details: object) -> None:
        """Stores the message and each detail. The core gives `maybe_stored` as a number."""
        super().__init__(message, **details)
        self.maybe_stored = bool(maybe_stored)


class WouldVanish(StoreError):
    """The call would lose pending messages, which are intact nowhere else. Nothing was changed.

    Attributes:
        count: The number of such messages.
        sequences: Some of them.
    """

    count: int | None = None
    sequences: tuple[int, ...] = ()


class PermissionDenied(StorageError, PermissionError):
    """The operating system does not allow this process to use a file of the store."""


class MissingFile(StoreError, FileNotFoundError):
    """A file that the store needs is missing; `reason` says what needs it."""

    def __init__(self, message: str = "", **details: object) -> None:
        """Stores the message, ENOENT and each detail."""
        OSError.__init__(self, _errno.ENOENT, message or type(self).__doc__)
        vars(self).update(details)


class NotAStore(StoreError):
    """The folder holds something other than a store; nothing in it was touched."""


class NewerFormat(StoreError):
    """The store was written by a later release; nothing in it was touched."""


class Corrupt(StoreError):
    """Durable bytes are damaged: `path`, `offset`, `expected` and `found` name the place."""


class DamagedPayload(Corrupt):
    """The payload of one message fails its checksum: the message is voided, never delivered.

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
    """The message was acknowledged, given back or made a dead letter before: settle each message once."""


class HoldExpired(StoreError):
    """The message was held for longer than `handle_within`: it went back to its group, and is delivered again.

    Its consumer has the message no longer, so another one may have handled it, too. If many messages were settled at
    once, those that were still held are settled; `index` is the place of the first one that was not.

    Attributes:
        count: The number of messages that were not settled.
    """

    count: int | None = None


class WrongLoop(StoreError, RuntimeError):
    """An asyncio store was used from another event loop or thread than the one that opened it."""


class TimedOut(StoreError, TimeoutError):
    """The wait was over before its event; the event may still happen."""

    def __init__(self, message: str = "", **details: object) -> None:
        """Stores the message, ETIMEDOUT and each detail."""
        OSError.__init__(self, _errno.ETIMEDOUT, message or type(self).__doc__)
        vars(self).update(details)


class Unreachable(StoreError, ConnectionError):
    """No server answers at that address; nothing was done. `reason` is the operating system's message."""

    def __init__(self, message: str = "", **details: object) -> None:
        """Stores the message, ECONNREFUSED and each detail."""
        OSError.__init__(self, _errno.ECONNREFUSED, message or type(self).__doc__)
        vars(self).update(details)


class NotPrimary(Unreachable):
    """Nodes answer, and no node was the primary of its copies until the timeout of the call; nothing was done.

    Attributes:
        address: Where the primary is, as `host:port`, as far as the last node that refused knows; empty if it does not.
        epoch: The epoch of the copies that this node knows of.
    """

    address: str | None = None
    epoch: int | None = None


class AmbiguousError(StoreError):
    """The connection was lost, or the time was over, before the answer came: it may have been done or not.

    After a publish, the message may be stored. After a flush, acknowledged messages may come again.
    """


class ProtocolError(StoreError):
    """The peer sent bytes that a delaymq server of this version does not send."""


class Unauthorized(StoreError):
    """The server requires a token, or the given token is wrong."""


class Busy(StoreError):
    """The server has too much in progress; nothing was done, and the call may be repeated later."""


class Stopping(StoreError):
    """The server is stopping; nothing was done."""
