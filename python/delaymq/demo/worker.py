"""A process of the demo that works with a store: what all of them have in them.

It is started with the number of a pipe and reads one line of orders from its standard input; the
end of that input is the order to stop.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from delaymq.demo.frames import FrameWriter, Kind

if TYPE_CHECKING:
    from delaymq.client.threads.client import Client
    from delaymq.store import Store

    Queue: TypeAlias = Store | Client

__all__ = ["started", "telling_failures"]


@contextmanager
def telling_failures(frames: FrameWriter) -> Iterator[None]:
    """Tells the parent of whatever the block raises, and lets it go on."""
    try:
        yield
    except BaseException:
        frames.send_json(Kind.FAILED, {"error": traceback.format_exc()})
        raise


def started(work: Iterable[Callable[[], None]], frames: FrameWriter) -> list[threading.Thread]:
    """Threads that do this; the parent is told of one that fails."""
    threads = [threading.Thread(target=_guarded, args=(part, frames), daemon=True) for part in work]
    for thread in threads:
        thread.start()
    return threads


def _guarded(part: Callable[[], None], frames: FrameWriter) -> None:
    try:
        part()
    except BaseException:  # noqa: BLE001 - the parent is told, whatever it is
        frames.send_json(Kind.FAILED, {"error": traceback.format_exc()})
