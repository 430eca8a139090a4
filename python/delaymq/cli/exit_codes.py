"""The table of exit codes. `docs/cli.md` has the same table, and a test compares them."""

from __future__ import annotations

from enum import IntEnum

from delaymq.cli.failures import UsageError
from delaymq.errors import (
    AmbiguousError,
    Busy,
    Corrupt,
    DelaymqError,
    DiskFull,
    InvalidArgument,
    KeyTaken,
    Locked,
    MissingFile,
    NamesFull,
    NotEnoughCopies,
    ProtocolError,
    Stopping,
    TimedOut,
    Unauthorized,
    Unreachable,
    WouldVanish,
    WrongType,
)


class Exit(IntEnum):
    """How the command ended."""

    DONE = 0
    FOUND = 1
    USAGE = 2
    STORE = 3
    DAMAGED = 4
    BUSY = 5
    FULL = 6
    PART = 7
    NO_SERVER = 8
    UNAUTHORIZED = 9
    AMBIGUOUS = 10
    INTERRUPTED = 130
    PIPE = 141
    TERMINATED = 143


MEANINGS = {
    Exit.DONE: "done",
    Exit.FOUND: "damage was found, a promise is broken, or a bench missed its mark",
    Exit.USAGE: "the command line, the configuration or a line of the input is wrong",
    Exit.STORE: "the store cannot be used this way, or the operating system refused a call",
    Exit.DAMAGED: "the store is damaged or one of its files is missing; nothing was changed",
    Exit.BUSY: "another process has the store open, the server is too busy, or has too few copies; nothing was done",
    Exit.FULL: "the disk, or the table of keys or ids, is full; nothing of the refused request is stored",
    Exit.PART: "only a part was done: a receipt was too late, a key taken or free, a row invalid, or fewer came",
    Exit.NO_SERVER: (
        "no delaymq server answers there, or not in time, or no node is the primary; "
        "the request can be repeated as it is"
    ),
    Exit.UNAUTHORIZED: "the server requires a token, or another one; nothing was done",
    Exit.AMBIGUOUS: (
        "the answer of the server was lost, did not come in time, or too few copies have the request: "
        "it may have been done or not"
    ),
    Exit.INTERRUPTED: "interrupted (Ctrl-C); unacknowledged messages are given back",
    Exit.PIPE: "the reader of the output went away; unacknowledged messages are given back",
    Exit.TERMINATED: "ended by SIGTERM; unacknowledged messages are given back",
}

KINDS: tuple[tuple[type[DelaymqError] | tuple[type[DelaymqError], ...], Exit], ...] = (
    ((UsageError, InvalidArgument, WrongType), Exit.USAGE),
    ((DiskFull, NamesFull), Exit.FULL),
    (KeyTaken, Exit.PART),
    ((Locked, Busy, Stopping, NotEnoughCopies), Exit.BUSY),
    ((Corrupt, MissingFile, WouldVanish), Exit.DAMAGED),
    ((Unreachable, TimedOut, ProtocolError), Exit.NO_SERVER),
    (Unauthorized, Exit.UNAUTHORIZED),
    (AmbiguousError, Exit.AMBIGUOUS),
    (DelaymqError, Exit.STORE),
)


def code_of(error: DelaymqError) -> Exit:
    """Returns the exit code of an error."""
    if isinstance(error, NotEnoughCopies) and error.maybe_stored:
        return Exit.AMBIGUOUS
    return next(code for kinds, code in KINDS if isinstance(error, kinds))
