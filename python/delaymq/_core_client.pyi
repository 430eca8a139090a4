"""Type stubs of the part of `delaymq._core` that is a client of a server.

It is a part of that module and no module of its own. A call that waits releases the interpreter; those whose names
begin with `begin` wait for nothing, and their answers come from `drain` under a number that the caller chooses.
"""

from collections.abc import Callable
from typing import Any, final

from delaymq._core import AsyncMessage, Message, Receipt, Received, Request
from delaymq.client.options import CoreOptions
from delaymq.errors import DelaymqError
from delaymq.filters import Filters
from delaymq.message import Settling
from delaymq.starts import CoreStart as Start

@final
class Connection:
    """One client of a server. Threads may share it; a wait releases the interpreter."""

    @staticmethod
    def open(options: CoreOptions, report: Callable[[str, str], object], /) -> Connection:
        """Connects. `report` gets the action and text of each report, on a thread of the client."""
    @staticmethod
    def begin_open(options: CoreOptions, report: Callable[[str, str], object], /) -> Connection:
        """Begins to connect, for an event loop, which gets the result under the number 0.

        Raises:
            TooLarge: The token is too long.
            StorageError: The process has no more descriptors or threads.
        """
    def call(self, request: Request, reads: bool, retry: bool, retry_for_ms: int | None, /) -> Any:  # noqa: ANN401
        """Sends a request and waits for its answer.

        `reads`: it changes nothing. `retry`: it is repeated if its answer is lost, within `retry_for_ms`.
        """
    def begin(self, request: Request, reads: bool, retry: bool, retry_for_ms: int | None, number: int, /) -> int:
        """Queues a request, whose answer comes under this number; returns its ticket. `send` sends it."""
    def send(self) -> None: ...
    def withdraw(self, ticket: int, /) -> DelaymqError | None:
        """Removes a request, and returns the error that describes its state; None if `drain` has its answer."""
    def drain(self) -> tuple[list[tuple[int, Any, BaseException | None]], list[int]]:
        """The answers since the last call, by number, and the ids of the subscriptions with news."""
    def fileno(self) -> int:
        """The descriptor that is readable when there is something to drain; only of `begin_open`."""
    def check(self) -> None: ...  # raises if the client is closed, or another process opened it
    @property
    def is_here(self) -> bool: ...  # True in the process that opened it
    @property
    def is_closed(self) -> bool: ...
    @property
    def lost_count(self) -> int: ...  # connections that were lost, or could not be made
    @property
    def stream(self) -> bytes: ...
    def subscribe(
        self,
        names: tuple[list[str], str],
        start: Start,
        in_flight_max: int,
        filters: Filters,
        handle_within_ms: int | None = None,
        number: int | None = None,
        /,
    ) -> RemoteSubscription:
        """A consumer of subjects and a group. With a number it waits for nothing, as those that begin."""
    def end(self) -> None:
        """Ends the client, and waits until its thread has closed the socket."""

@final
class RemoteSubscription:
    """One consumer of a group on a server, with the methods of `Subscription`. Those that begin return a ticket."""

    @property
    def id(self) -> int: ...
    @property
    def is_open(self) -> bool: ...
    def pull(self, count_max: int, timeout_ms: int | None, /) -> list[Message]: ...
    def acknowledge(self, key: int, /) -> bool: ...
    def acknowledge_many(self, messages: list[Message] | list[AsyncMessage], /) -> list[int]: ...
    def give_back(self, key: int, delay_ms: int, /) -> bool: ...
    def dead_letter(self, key: int, reason: str, /) -> bool: ...
    def extend(self, key: int, duration_ms: int | None, /) -> bool: ...
    def flush(self, timeout_ms: int | None, /) -> None: ...
    def receipt(self, message: Received, /) -> Receipt: ...
    def stop(self) -> None: ...
    def close(self, *, with_client: bool = False) -> None: ...
    def try_pull(self, count_max: int, at_once: bool, settling: Settling, /) -> list[AsyncMessage] | None: ...
    def begin_ready(self, number: int, /) -> int | None:
        """Asks the server for all ready messages; None without a connection."""
    def begin_flush(self, number: int, /) -> int | None: ...
    def begin_close(self, number: int, with_client: bool, /) -> int | None: ...
    def finish_close(self, was_confirmed: bool, /) -> None: ...
    def abandon(self) -> DelaymqError: ...  # removes a subscription that was begun
