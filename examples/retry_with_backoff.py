"""Delivers webhooks to a server that sometimes fails, and retries with growing delays.

    python examples/retry_with_backoff.py ./webhooks

delivers three webhooks to a server that fails at first. The webhook that fails too often becomes a dead letter,
and is brought back when the server is repaired.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import delaymq

SUBJECT, GROUP = "webhook", "sender"
ATTEMPTS_MAX = 5

Delivery = Callable[[bytes], None]
"""Delivers one webhook, or raises ConnectionError."""


def deliver_all(
    messages: delaymq.Subscription,
    deliver: Delivery,
    retry_after: Callable[[int], timedelta],
    count: int | None = None,
) -> None:
    """Delivers due webhooks until `count` are delivered or dead letters, or `messages` is stopped."""
    done = 0
    for message in messages:
        try:
            deliver(message.body)
        except ConnectionError as error:
            if message.attempt < ATTEMPTS_MAX:
                message.nack(retry_after(message.attempt))
                continue
            message.dead_letter(str(error))
        else:
            message.ack()
        done += 1
        if done == count:
            return


def bring_back(store: delaymq.Store, tell: Callable[[str], object]) -> int:
    """Reports the dead letters, brings them back to the group, and returns their number."""
    for letter in store.dead_letters(SUBJECT, GROUP):
        tell(f"{letter.body.decode()!r} was given up after {letter.attempt} attempts: {letter.reason}")
    return store.redrive(SUBJECT, GROUP)


class ShakyServer:
    """Refuses each webhook as often as the webhook says, until the server is repaired."""

    def __init__(self) -> None:
        """Starts without deliveries."""
        self.is_repaired = False
        self._refused: dict[bytes, int] = {}

    def __call__(self, body: bytes) -> None:
        """Delivers, or raises ConnectionError."""
        refused = self._refused.setdefault(body, 0)
        if refused < int(body.split()[-1]) and not self.is_repaired:
            self._refused[body] += 1
            raise ConnectionError(f"refused {refused + 1} times")
        print(f"{body.decode()!r} is delivered")


def main(folder: Path) -> None:
    """Delivers three webhooks, the last one only after the server is repaired."""
    server, retry_after = ShakyServer(), delaymq.backoff(first=0.1, factor=2, jitter=0)
    with delaymq.open(folder) as store, store.subscribe(SUBJECT, group=GROUP) as messages:
        store.publish_many(SUBJECT, [b"refuse 0", b"refuse 2", b"refuse 99"])
        deliver_all(messages, server, retry_after, count=3)
        messages.flush()  # from here on the dead letter is durable
        server.is_repaired = True
        returning = bring_back(store, print)
        deliver_all(messages, server, retry_after, count=returning)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
