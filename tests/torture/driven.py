"""Tortures a program on the engine (rust/engine/examples/tortured): its standard output is the ledger's lines."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from collections import deque
from io import BufferedReader
from pathlib import Path

from torture.kills import WHEN_IDLE, Kill
from torture.ledger import Ledger
from torture.lives import Ends, died_there, end, planted

SUBJECTS, GROUPS, IN_FLIGHT = 2, 2, 48
IN_FLIGHT_MAX = (SUBJECTS + 2) * GROUPS * IN_FLIGHT
"""Beside the subjects there are one whose order is judged, and one of what recurs."""
DRAIN_SECONDS = 120
CHECKPOINT_FACTS = 300
MESSAGES_PER_SECOND = 1_500
# So few that the log falls idle between them.
IDLE_PER_SECOND = 20
PIECE_BYTES = 1 << 16
# Lines that say something to the harness, too; most are only copied.
ENDED, START, RECEIPT = b'{"kind":"ended"', b'{"kind":"start"', b'"receipt":'
RECEIPTED = (b'{"kind":"published"', b'{"kind":"moved"')


class Life:
    """One process of the program, and the thread that reads what it tells."""

    def __init__(self, process: subprocess.Popen[bytes], ledger: Ledger, receipts: deque[str]) -> None:
        self.process = process
        self.is_told = threading.Event()
        """Set when it is open, or will never be."""
        self.epoch: int | None = None
        self.ended = ""
        self._ledger = ledger
        self._receipts = receipts
        assert isinstance(process.stdout, BufferedReader)
        self.reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self.reader.start()

    def _read(self, stdout: BufferedReader) -> None:
        rest = b""
        while piece := stdout.read1(PIECE_BYTES):
            # What is behind the last line feed was cut off, and was not done.
            *lines, rest = (rest + piece).split(b"\n")
            kept = [line + b"\n" for line in lines if self._is_of_the_ledger(line)]
            self._ledger.copy(b"".join(kept))
            if self.epoch is not None:
                self.is_told.set()
        self.is_told.set()

    def _is_of_the_ledger(self, line: bytes) -> bool:
        """Takes from it what the harness needs to know."""
        if line.startswith(ENDED):
            told = json.loads(line)
            self.ended = f"{told['cause']}: {told['error']}"
            return False
        if line.startswith(RECEIPTED) and RECEIPT in line:
            told = json.loads(line)
            self._receipts.append(f"{told['id']}={told['receipt']}")
        elif line.startswith(START):
            self.epoch = json.loads(line)["epoch"]
        return True


class DrivenStore:
    """One store and the lives of the program that has it open."""

    def __init__(self, folder: Path, ledger: Ledger, seed: int, *, durability: str, program: str, fault: str) -> None:
        self.folder = folder
        self.ledger = ledger
        self.seed = seed
        self.durability = durability
        self.program = program
        self.fault = fault
        self.ends = Ends()
        self.lives = 0
        self.receipts: deque[str] = deque(maxlen=12)
        self.chance = random.Random(seed)

    def torture(self, kills: list[Kill]) -> Ends:
        """Lives through all these ends, then drains; the ledger is whole after that."""
        for kill in kills:
            self.live(kill)
        self.fault = ""
        life = self.start("drain", None, "--drain-seconds", str(DRAIN_SECONDS), "--quiet-ms", "300", "--verify", "yes")
        code = life.process.wait(2 * DRAIN_SECONDS)
        life.reader.join()
        assert code == 0, (code, life.ended, self.said())
        self.ledger.tell("drained")
        return self.ends

    def live(self, kill: Kill) -> None:
        given = [part for receipt in self.receipts if self.chance.random() < 0.5 for part in ("--change", receipt)]
        self.receipts.clear()
        life = self.start("work", kill, *given)
        process = life.process
        try:
            life.is_told.wait()
            if life.epoch is None:
                process.wait()
                assert kill.failpoint, (process.returncode, life.ended, self.said())
                died_there(process, kill, self.ends)
            else:
                end(process, kill, self.ledger, self.ends, in_flight_max=IN_FLIGHT_MAX, epoch=life.epoch)
        finally:
            process.kill()
            process.wait()
            life.reader.join()
        assert process.returncode == -signal.SIGKILL, (process.returncode, life.ended, self.said())
        if life.epoch is not None:
            self.ledger.tell("stop", cause="kill", in_flight_max=IN_FLIGHT_MAX)

    def start(self, what: str, kill: Kill | None, *given: str) -> Life:
        options: dict[str, object] = {"--store": self.folder, "--life": self.lives, "--seed": self.seed}
        is_idle = kill is not None and kill.failpoint in WHEN_IDLE
        pace = IDLE_PER_SECOND if is_idle else MESSAGES_PER_SECOND
        options |= {"--durability": self.durability, "--messages-per-second": pace}
        options |= {"--subjects": SUBJECTS, "--groups": GROUPS, "--in-flight": IN_FLIGHT, "--delay-ms-max": 300}
        options |= {
            "--terms": "yes",
            "--far-ms-max": 1_500,
            "--copy-after-ms": 200,
            "--checkpoint-facts": CHECKPOINT_FACTS,
        }
        self.lives += 1
        arguments = [str(part) for pair in options.items() for part in pair]
        with self.folder.with_suffix(".said").open("ab") as said:
            process = subprocess.Popen(
                [self.program, what, *arguments, *given],
                stdout=subprocess.PIPE,
                stderr=said,
                env=planted(kill, None, self.fault),
            )
        return Life(process, self.ledger, self.receipts)

    def said(self) -> str:
        return self.folder.with_suffix(".said").read_text(encoding="utf-8")[-2000:]


def torture(
    folder: Path, ledger: Ledger, kills: list[Kill], seed: int, *, durability: str, program: str, fault: str = ""
) -> Ends:
    """Tortures a store in this folder by this program."""
    return DrivenStore(folder, ledger, seed, durability=durability, program=program, fault=fault).torture(kills)
