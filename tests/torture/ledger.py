"""The ledger of one store: what its clients sent and saw, line by line (tests/checker/README.md)."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Ledger:
    """Appends; each line is with the operating system before the call returns. Any thread may tell."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        """For who must do something else with nothing told meanwhile."""
        self._file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def tell(self, kind: str, **fields: object) -> None:
        self.tell_all([{"kind": kind, **fields}])

    def tell_all(self, lines: list[dict[str, object]]) -> None:
        """Lines of one moment; those that have a time keep it."""
        with self.lock:
            self._tell(lines)

    def tell_held(self, kind: str, **fields: object) -> None:
        """As `tell`, by who has the lock."""
        self._tell([{"kind": kind, **fields}])

    def copy(self, lines: bytes) -> None:
        """Takes whole lines as they are; each has its time."""
        with self.lock:
            self._file.write(lines)

    def _tell(self, lines: list[dict[str, object]]) -> None:
        now_ms = wall_ms()
        self._file.write(b"".join(json.dumps({"at_ms": now_ms, **line}).encode() + b"\n" for line in lines))
