r"""A reminder service on asyncio: it reads lines, and prints each line when its time has come.

    printf '2 tea is ready\n1 look out of the window\n' | python examples/reminders.py ./reminders

A line is a number of seconds and a text. The service ends when its input has ended and no reminder is left, or at
Ctrl-C. The remaining reminders are printed after the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import delaymq

SUBJECT = "reminder"


async def take_in(store: delaymq.AsyncStore, lines: AsyncIterator[str]) -> None:
    """Publishes each line with its delay."""
    async for line in lines:
        seconds, _, text = line.strip().partition(" ")
        try:
            await store.publish(SUBJECT, text.encode(), delay=float(seconds))
        except (ValueError, delaymq.InvalidArgument):
            print(f"not understood: {line.strip()!r}", file=sys.stderr)


async def remind(messages: delaymq.AsyncSubscription, tell: Callable[[str], object]) -> None:
    """Prints due reminders until it is stopped."""
    async for message in messages:
        async with message:
            tell(message.body.decode())


async def serve(store: delaymq.AsyncStore, lines: AsyncIterator[str], tell: Callable[[str], object]) -> None:
    """Publishes lines and prints reminders, until the input has ended and no reminder is left."""
    async with store.subscribe(SUBJECT, group="people") as messages:
        reminding = asyncio.create_task(remind(messages, tell))
        try:
            await take_in(store, lines)
            while (status := await store.status()).pending or status.ready:
                await asyncio.sleep(0.05)
                if reminding.done():
                    break
            messages.stop()
            await reminding
        finally:
            reminding.cancel()


async def lines_of_input() -> AsyncIterator[str]:
    """Yields the lines of the standard input, which are read on a thread."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line


async def main(folder: Path) -> None:
    """Runs the service."""
    async with delaymq.open_async(folder) as store:
        await serve(store, lines_of_input(), print)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
