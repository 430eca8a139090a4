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
from faces import Served

OPTIONS: dict[str, Any] = {"durability": "os", "segment_bytes": 1 << 16, "keep_finished": 0}
IN_FLIGHT_MAX = 8


class Plain:
    """The plain face."""

    store: Any

    def call(self, call: Callable[[], Any]) -> Any:
        return call()

    def opening(self, folder: str) -> Any:
        return delaymq.open(folder, **OPTIONS)

    def closed(self) -> None:
        """What was opened is closed."""

    def checkpoint(self, store: Any) -> None:
        self.call(store.checkpoint)


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


class Client(Plain):
    """A client of a server in this process, over a store that is opened and closed with it."""

    def __init__(self) -> None:
        self.served: list[Served] = []

    def opening(self, folder: str) -> Any:
        self.served.append(Served(folder, **OPTIONS))
        return delaymq.connect(self.served[-1].url)

    def closed(self) -> None:
        """The store and its server go after their client."""
        self.served.pop().close()

    def checkpoint(self, _store: Any) -> None:
        self.served[-1].store.checkpoint()


class AsyncioClient(Client, Asyncio):
    """As `Client`, on an event loop."""

    def __init__(self) -> None:
        Asyncio.__init__(self)
        Client.__init__(self)

    def opening(self, folder: str) -> Any:
        self.served.append(Served(folder, **OPTIONS))
        return delaymq.connect_async(self.served[-1].url)


class Driven:
    """A store that does as it is told; messages in hand are named by their bodies."""

    def __init__(self, face: Plain, folder: str) -> None:
        self.face = face
        self.folder = folder
        self.held: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        self.store = self.face.call(lambda: self.face.opening(self.folder))
        self.messages: list[Any] = []
        self.subscribe()
        self.held.clear()

    def subscribe(self) -> None:
        """One more subscription of the group; they are named by their places."""
        self.messages.append(self.face.call(lambda: self.store.subscribe("a", group="g", in_flight_max=IN_FLIGHT_MAX)))

    def unsubscribe(self) -> None:
        """Closes the newest one."""
        self.face.call(self.messages.pop().close)

    def stop(self) -> list[Any]:
        """Ends the first one, tells what it still hands over, and begins it anew."""
        first = self.messages[0]
        first.stop()
        found = [self.face.call(lambda: first.get(0)), self.face.call(first.get), self.next_of(first, 5, None)]
        self.face.call(first.close)
        self.messages[0] = self.face.call(lambda: self.store.subscribe("a", group="g", in_flight_max=IN_FLIGHT_MAX))
        return found

    def next_of(self, messages: Any, most: int, wait: float | None) -> Any:
        batches = messages.batches(most, wait)
        found: Any = self.face.call(
            lambda: anext(batches, None) if hasattr(batches, "__anext__") else next(batches, None)
        )
        return found

    def reopen(self) -> None:
        for messages in self.messages:
            self.face.call(messages.close)
        self.face.call(self.store.close)
        self.face.closed()
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

    def move(self, receipt: str, delay_ms: int) -> list[Any]:
        parsed = delaymq.Receipt.parse(receipt)
        moved: delaymq.Moved = self.face.call(lambda: self.store.move(parsed, delay=delay_ms / 1000))
        again: delaymq.Moved = self.face.call(lambda: self.store.move(parsed, delay=delay_ms / 1000))
        assert again == moved
        return [moved.outcome.value, None if moved.receipt is None else str(moved.receipt)]

    def cancel_many(self, receipts: list[str]) -> list[str]:
        parsed = [delaymq.Receipt.parse(receipt) for receipt in receipts]
        return [outcome.value for outcome in self.face.call(lambda: self.store.cancel_many(parsed))]

    def get(self, timeout: float, which: int) -> list[Any] | None:
        message = self.face.call(lambda: self.messages[which].get(timeout))
        return None if message is None else self.taken(message)

    def batch(self, most: int, wait: float, which: int) -> list[Any]:
        return [self.taken(message) for message in self.next_of(self.messages[which], most, wait)]

    def taken(self, message: Any) -> list[Any]:
        body = message.body.decode()
        self.held[body] = message
        early = message.lateness.total_seconds() < 0
        return [body, str(message.receipt), message.attempt, message.redelivered, list(message.tags), early]

    def settle_many(self, how: str, bodies: list[str], which: int, delay_ms: int) -> str | None:
        """The name of the error, or None; then they are in hand no more."""
        given = {"ack": (), "nack": (delay_ms / 1000,), "dead_letter": ("why",)}[how]
        many = [self.held[body] for body in bodies]
        try:
            self.face.call(lambda: getattr(self.messages[which], how)(many, *given))
        except delaymq.DelaymqError as error:
            assert not any(message.settled for message in many)
            return type(error).__name__
        for body in bodies:
            assert self.held.pop(body).settled
        return None

    def redrive(self) -> int:
        count: int = self.face.call(lambda: self.store.redrive("a", "g"))
        return count

    def dead_letters(self) -> list[str]:
        return [letter.body.decode() for letter in self.face.call(lambda: self.store.dead_letters("a", "g", 10_000))]

    def ack(self, body: str) -> None:
        self.face.call(self.held.pop(body).ack)

    def nack(self, body: str, delay_ms: int) -> None:
        message = self.held.pop(body)
        self.face.call(lambda: message.nack(delay_ms / 1000))

    def flush(self) -> None:
        for messages in self.messages:
            self.face.call(lambda messages=messages: messages.flush(10))  # type: ignore[misc]

    def checkpoint(self) -> None:
        self.face.checkpoint(self.store)


def main() -> None:
    faces = {"plain": Plain, "asyncio": Asyncio, "client": Client, "asyncio client": AsyncioClient}
    driven = Driven(faces[sys.argv[1]](), sys.argv[2])
    print(json.dumps("ready"), flush=True)  # noqa: T201 - the answers go to whoever drives
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(driven, name)(*arguments)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
