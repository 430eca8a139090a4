"""Delivers webhooks to a server that is not always there, later and later each time.

    python examples/retry_with_backoff.py ./webhooks

delivers three to a server that fails at first, and gives up the one that never works.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import delaymq

SUBJECT, GIVEN_UP = "webhook", "webhook.given_up"
ATTEMPTS_MAX = 5

Delivery = Callable[[bytes], None]
"""Delivers one webhook, or raises ConnectionError."""


def deliver_all(
    store: delaymq.Store,
    messages: delaymq.Subscription,
    deliver: Delivery,
    retry_after: Callable[[int], timedelta],
) -> None:
    """Delivers what is due until `messages` is stopped; what fails too often goes to another subject."""
    for message in messages:
        try:
            deliver(message.body)
        except ConnectionError as error:
            if message.attempt < ATTEMPTS_MAX:
                message.nack(retry_after(message.attempt))
                continue
            # Kept before it is acknowledged: a crash in between gives it up twice, and never loses it.
            store.publish(GIVEN_UP, message.body, attributes={"reason": str(error)})
        message.ack()


class ShakyServer:
    """Refuses each webhook a number of times that the webhook says itself."""

    def __init__(self) -> None:
        """Nothing was delivered yet."""
        self._refused: dict[bytes, int] = {}

    def __call__(self, body: bytes) -> None:
        """Delivers, or raises ConnectionError."""
        refused = self._refused.setdefault(body, 0)
        if refused < int(body.split()[-1]):
            self._refused[body] += 1
            raise ConnectionError(f"{body.decode()!r} was refused {refused + 1} times")
        print(f"{body.decode()!r} is delivered")


def main(folder: Path) -> None:
    """Delivers three webhooks."""
    with delaymq.open(folder) as store, store.subscribe(SUBJECT, group="sender") as messages:
        store.publish_many(SUBJECT, [b"refuse 0", b"refuse 2", b"refuse 99"])
        server, left = ShakyServer(), 3

        def deliver(body: bytes) -> None:
            nonlocal left
            server(body)
            left -= 1
            if left == 1:  # the last one never arrives: let its attempts pass, then stop
                store.publish(SUBJECT, b"refuse 0", delay=2)
            elif left == 0:
                messages.stop()

        deliver_all(store, messages, deliver, delaymq.backoff(first=0.1, factor=2, jitter=0))
        with store.subscribe(GIVEN_UP, group="operator") as given_up:
            while (message := given_up.get(timeout=0.5)) is not None:
                with message:
                    print(f"{message.body.decode()!r} is given up: {message.attributes['reason']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
