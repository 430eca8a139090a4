"""A process that drives one face of a store by orders from its input, so that it can be killed.

An order is one line of JSON, a list of a name and arguments; so is its answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import delaymq

OPTIONS: dict[str, Any] = {"durability": "os", "segment_bytes": 1 << 16, "keep_finished": 0}


class Plain:
    """The plain face."""

    store: Any
    messages: Any

    def call(self, call: Callable[[], Any]) -> Any:
        return call()

    def opening(self, folder: str) -> Any:
        return delaymq.open(folder, **OPTIONS)


class Asyncio(Plain):
    """The asyncio face."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def call(self, call: Callable[[], Any]) -> Any:
        async def called() -> Any:
            found = call()
            return await found if hasattr(found, "__await__") else found

        return self.runner.run(called())

    def opening(self, folder: str) -> Any:
        return delaymq.open_async(folder, **OPTIONS)


class Driven:
    """A store that does as it is told; messages in hand are named by their bodies."""

    def __init__(self, face: Plain, folder: str) -> None:
        self.face = face
        self.folder = folder
        self.held: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        self.store = self.face.call(lambda: self.face.opening(self.folder))
        self.messages = self.face.call(lambda: self.store.subscribe("a", group="g", in_flight_max=8))
        self.held.clear()

    def reopen(self) -> None:
        self.face.call(self.messages.close)
        self.face.call(self.store.close)
        self.open()

    def publish(self, body: str, delay_ms: int, tag: str) -> str:
        delay = delay_ms / 1000
        return str(self.face.call(lambda: self.store.publish("a", body.encode(), delay=delay, tags=(tag,))))

    def publish_many(self, bodies: list[str], delay_ms: int) -> list[str]:
        encoded = [body.encode() for body in bodies]
        found = self.face.call(lambda: self.store.publish_many("a", encoded, delay_ms / 1000))
        return [str(receipt) for receipt in found]

    def cancel(self, receipt: str) -> str:
        outcome: delaymq.Outcome = self.face.call(lambda: self.store.cancel(delaymq.Receipt.parse(receipt)))
        return outcome.value

    def get(self, timeout: float) -> list[Any] | None:
        message = self.face.call(lambda: self.messages.get(timeout))
        if message is None:
            return None
        body = message.body.decode()
        self.held[body] = message
        early = message.lateness.total_seconds() < 0
        return [body, str(message.receipt), message.attempt, message.redelivered, list(message.tags), early]

    def ack(self, body: str) -> None:
        self.face.call(self.held.pop(body).ack)

    def nack(self, body: str, delay_ms: int) -> None:
        message = self.held.pop(body)
        self.face.call(lambda: message.nack(delay_ms / 1000))

    def flush(self) -> None:
        self.face.call(lambda: self.messages.flush(10))

    def checkpoint(self) -> None:
        self.face.call(self.store.checkpoint)


def main() -> None:
    driven = Driven({"plain": Plain, "asyncio": Asyncio}[sys.argv[1]](), sys.argv[2])
    print(json.dumps("ready"), flush=True)  # noqa: T201 - the answers go to whoever drives
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(driven, name)(*arguments)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
