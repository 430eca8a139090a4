"""The ledger of one store, and the program on it that tells what it attempts and what came of it."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torture.ledger

PIPE_BYTES = 1 << 20
ENDED = b'{"kind":"ended"'
START = b'{"kind":"start"'
RECEIPTS_KEPT = 64
RECEIPTED = ("published", "moved")
RESULT = re.compile(
    rb'^(\{"kind":"(?:published|cancelled|moved|acknowledged|series_made|series_ended)".*"result":")[a-z_]+"'
)


class Ledger(torture.ledger.Ledger):
    """Outside the file system that is cut; it begins with how it came to be."""

    def __init__(self, path: Path, harness: str, seed: int, options: dict[str, Any]) -> None:
        super().__init__(path)
        self.tell("run", harness=harness, seed=seed, options=options)


def in_doubt(line: bytes) -> bytes:
    """A line that was read after the power went: what it answers may have been lost."""
    return RESULT.sub(rb'\1ambiguous"', line)


class Program:
    """One life of the program."""

    def __init__(self, ledger: Ledger, command: Sequence[str], user: int | None = None) -> None:
        self.ledger = ledger
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=user)
        assert self.process.stdout is not None
        self._pipe = self.process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._rest = b""
        self.is_cut = False
        self.is_over = False
        self.has_started = False
        self.cause = ""
        """What it said last of why it ends."""
        self.counts: dict[str, int] = {}
        self.receipts: list[str] = []
        """Of messages that a later life may cancel or move, as the program takes them."""

    def read(self, until: float) -> None:
        """Takes what it tells until this time by the monotonic clock, or until it ends."""
        while not self.is_over:
            wait = until - time.monotonic()
            ready, _, _ = select.select([self._pipe], [], [], max(wait, 0))
            if not ready:
                return
            self._take()
            if wait <= 0:
                return

    def read_all(self) -> None:
        """Takes what it has told so far."""
        while not self.is_over and select.select([self._pipe], [], [], 0)[0]:
            self._take()

    def read_until_answered(self, cut: Callable[[], None], until: float) -> bool:
        """Cuts as soon as an answer was read, before anything else is done; False where none came until this time."""
        while not self.is_over:
            wait = until - time.monotonic()
            if wait <= 0 or not select.select([self._pipe], [], [], wait)[0]:
                return False
            piece = os.read(self._pipe, PIPE_BYTES)
            is_answer = b'"acknowledged"' in piece
            if is_answer:
                cut()
            self._took(piece)
            if is_answer:
                return True
        return False

    def _take(self) -> None:
        self._took(os.read(self._pipe, PIPE_BYTES))

    def _took(self, piece: bytes) -> None:
        if not piece:
            self.is_over = True
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        kept = [self._judged(line) for line in lines if not line.startswith(ENDED) or self._ends(line)]
        if kept:
            self.ledger.copy(b"\n".join(kept) + b"\n")

    def _ends(self, line: bytes) -> bool:
        told = json.loads(line)
        self.cause = f"{told['cause']}: {told['error']}".strip(": ")
        return False

    def _judged(self, line: bytes) -> bytes:
        kind = line[9 : line.index(b'"', 9)].decode()
        if kind in RECEIPTED:
            told = json.loads(line)
            kind = f"{kind} {told['result']}"
            if not self.is_cut and "receipt" in told:
                self.receipts = [*self.receipts[1 - RECEIPTS_KEPT :], f"{told['id']}={told['receipt']}"]
        self.has_started |= kind == "start"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return in_doubt(line) if self.is_cut else line

    def end(self, patience_seconds: float = 0) -> int:
        """Waits for its end, then kills it; its exit code, below 0 for the signal that ended it."""
        self.read(time.monotonic() + patience_seconds)
        self.process.kill()
        self.read(time.monotonic() + 10)
        assert self.is_over, "a killed process keeps its pipe open"
        code = self.process.wait()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process.stdout, self.process.stderr:
            said = self.process.stderr.read().decode(errors="replace").strip()
        self.cause = self.cause or said
        return code
