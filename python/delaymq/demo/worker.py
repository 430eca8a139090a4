"""Parts that all worker processes share.

A worker is started with the number of a pipe, and reads one line of orders from its standard input; the
end of that input makes it stop.
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

Queue: TypeAlias = "Store | Client"


@contextmanager
def reporting_failures(frames: FrameWriter) -> Iterator[None]:
    """Reports an exception of the block to the parent, and raises it again."""
    try:
        yield
    except BaseException:
        frames.send_json(Kind.FAILED, {"error": traceback.format_exc()})
        raise


def start_threads(work: Iterable[Callable[[], None]], frames: FrameWriter) -> list[threading.Thread]:
    """Starts a thread for each function; an exception is reported to the parent."""
    threads = [threading.Thread(target=_guarded, args=(part, frames), daemon=True) for part in work]
    for thread in threads:
        thread.start()
    return threads


def _guarded(part: Callable[[], None], frames: FrameWriter) -> None:
    try:
        part()
    except BaseException:  # noqa: BLE001 - the parent gets every exception
        frames.send_json(Kind.FAILED, {"error": traceback.format_exc()})
