"""The core's subscription, played by a list; for tests of the Python above it."""

from __future__ import annotations

from collections import deque
from typing import cast

from delaymq.message import Message, Settling


class FakeSubscription:
    def __init__(self, count: int) -> None:
        self.waiting = deque(
            (key, "orders", b"body %d" % key, 1_000 + key, 900, 1, False, 50 + key, 1_000 + key, b"")
            for key in range(count)
        )
        self.pulls: list[tuple[int, int | None]] = []
        self.acknowledged: list[int] = []
        self.given_back: list[tuple[int, int]] = []
        self.calls: list[str] = []

    def pull(self, count_max: int, timeout_ms: int | None) -> list[Message]:
        self.pulls.append((count_max, timeout_ms))
        count = min(count_max, len(self.waiting))
        return [Message(cast("Settling", self), self.waiting.popleft(), 1_005) for _ in range(count)]

    def acknowledge(self, key: int) -> bool:
        self.acknowledged.append(key)
        return True

    def acknowledge_many(self, messages: list[Message]) -> list[int]:
        for message in messages:
            self.acknowledged.append(message.key)
            message._settle()
        return []

    def give_back(self, key: int, delay_ms: int) -> bool:
        self.given_back.append((key, delay_ms))
        return True

    def flush(self, timeout_ms: int | None) -> None:
        self.calls.append(f"flush {timeout_ms}")

    def stop(self) -> None:
        self.calls.append("stop")

    def close(self) -> None:
        self.calls.append("close")
