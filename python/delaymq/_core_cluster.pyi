"""The part of the boundary between Python and the core that is for a node of a group of copies."""

from collections.abc import Callable, Mapping
from typing import final

from delaymq._arguments.server_options import ClusterOptions, RegisterOptions, ServerOptions

@final
class Node:
    """A node: its copy of the store, and a server while it is the primary. Dropping the object stops it immediately."""

    @staticmethod
    def start(
        path: str,
        store: Mapping[str, object],
        server: ServerOptions,
        cluster: ClusterOptions,
        progress: Callable[[int, int, int], None] | None,
        /,
    ) -> Node:
        """Opens the copy in the folder, or makes an empty one of the group that the register names. Listens when it
        returns.

        `store` has the options of `Store.open`, and `progress` is called as there.
        """
    def addresses(self) -> tuple[str, str | None, str]:
        """The addresses for connections, for plain HTTP, and for the other nodes."""
    def status(self) -> str:
        """JSON, as GET /cluster has it."""
    def notices(self) -> tuple[list[tuple[str, str, str, str, str, int]], int]:
        """As `Server.notices`."""
    def next_report(self, wait_ms_max: int, /) -> tuple[bool, str] | None:
        """Whether it is a warning, and the text, of the oldest report not yet fetched; None if there is none."""
    def stop(self, patience_ms: int, /) -> None:
        """Begins to stop and returns; a later call with less patience replaces it."""
    def wait(self, wait_ms_max: int, /) -> int | None:
        """As `Server.wait`. Raises if the node has ended by itself, with the reason."""

def create_group(path: str, segment_bytes: int, register: RegisterOptions, min_copies: int, /) -> tuple[str, str]:
    """Makes the first copy of a new group, or takes the closed store in the folder, and writes the register.

    Returns the stream and the node, in hexadecimal digits.
    """

def continue_group(path: str, register: RegisterOptions, node: bytes, /) -> tuple[int, int]:
    """Lets the group of the register go on from the copy of this node, which does not run, as a later timeline.

    Returns the timeline, and the first sequence that may be missing.
    """

def read_register(register: RegisterOptions, /) -> str | None:
    """The value of the register as JSON, with its coordinator and version; None if there is none."""
