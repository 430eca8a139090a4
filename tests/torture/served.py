"""Tortures `delaymq serve`: threads publish and consume over TCP while it is killed and started again."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from commanding import arguments_of
from ports import lone_port
from qmq_client.connection import ClosedError
from torture import clients, qmq_clients
from torture.clients import Where, World, again, begin_groups
from torture.kills import Kill
from torture.ledger import Ledger
from torture.lives import Ends, died_there, end, planted

DRAIN_SECONDS = 60
FAULTY_DRAIN_SECONDS = 5
QUIET_SECONDS = 0.4
SERVE_SECONDS = 30
IN_FLIGHT_MAX = 3 * clients.IN_FLIGHT + qmq_clients.COUNT
"""Of two consumers of one group, one of another, and one of QMQ's."""
CHECKPOINT_FACTS = 400


class ServedStore:
    """One store, its server's lives and its clients."""

    def __init__(self, folder: Path, ledger: Ledger, seed: int, *, durability: str, packages: str, fault: str) -> None:
        self.folder = folder
        self.ledger = ledger
        self.seed = seed
        self.durability = durability
        self.packages = packages
        self.fault = fault
        self.has_fault = bool(fault)
        self.world = World(ledger, seed)
        self.ends = Ends()
        self.epoch = 0
        self.port = lone_port()
        self.threads: list[threading.Thread] = []

    def torture(self, kills: list[Kill]) -> Ends:
        """Lives through all these ends, then one more without any; the ledger is whole after that."""
        for kill in kills:
            self.live(kill)
        # The last life: nothing is planted, nobody is killed.
        while not self.threads:
            self.live(Kill("moment", 0.2))
        self.fault = ""
        process = self.start(None)
        assert process is not None, self.said()
        self.world.is_publishing = False
        self.world.is_gentle = True
        self.serves()
        self.drain()
        self.world.is_over = True
        for _ in range(2):
            # Told twice, it does not wait for its clients.
            process.terminate()
        process.communicate(timeout=DRAIN_SECONDS)
        for thread in self.threads:
            thread.join(DRAIN_SECONDS)
        assert not self.world.wrong, self.world.wrong
        self.ledger.tell("drained")
        return self.ends

    def live(self, kill: Kill) -> None:
        process = self.start(kill)
        if process is None:
            return
        try:
            self.serves()
            end(process, kill, self.ledger, self.ends, in_flight_max=IN_FLIGHT_MAX, epoch=self.epoch)
        finally:
            process.kill()
            process.communicate()
        self.world.where = None
        self.ledger.tell("stop", cause="kill", in_flight_max=IN_FLIGHT_MAX)

    def serves(self) -> None:
        """Lets the clients know; the first time that it works, they begin."""
        where = Where(f"127.0.0.1:{self.port}", self.epoch)
        self.ledger.tell("start", epoch=self.epoch)
        self.world.where = where
        if self.threads:
            return
        try:
            begin_groups(self.world, where)
            qmq_clients.begin_group(self.world, where)
        except (OSError, ClosedError):
            return
        works = [clients.produce, clients.produce, clients.consume("g"), clients.consume("g"), clients.consume("h")]
        works += [qmq_clients.produce, qmq_clients.consume]
        for place, work in enumerate(works):
            thread = threading.Thread(target=again, args=(self.world, work, str(place)), daemon=True)
            self.threads.append(thread)
            thread.start()

    def start(self, kill: Kill | None) -> subprocess.Popen[str] | None:
        """A process that serves; none where it came to its failpoint before."""
        settings = [f"server.port={self.port}", "http.port=0", f"store.durability={self.durability}"]
        if self.packages:
            settings += ["store.segment_bytes=65536", "store.keep_finished_hours=0"]
        given = [part for setting in settings for part in ("--set", setting)]
        variables = planted(kill, CHECKPOINT_FACTS if self.packages else None, self.fault)
        if self.packages:
            variables["PYTHONPATH"] = self.packages
        with self.folder.with_suffix(".said").open("a") as said:
            process = subprocess.Popen(
                arguments_of("serve", "--store", str(self.folder), "--json", *given),
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=variables,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert kill is not None, self.said()
            assert kill.failpoint, self.said()
            died_there(process, kill, self.ends)
            process.communicate()
            return None
        self.epoch += 1
        return process

    def said(self) -> str:
        return self.folder.with_suffix(".said").read_text(encoding="utf-8")[-2000:]

    def drain(self) -> None:
        """Waits until everything came, and then until nothing more comes."""
        # With a fault planted, what it lost is not waited for.
        last = time.monotonic() + (FAULTY_DRAIN_SECONDS if self.has_fault else DRAIN_SECONDS)
        while time.monotonic() < last and not self.world.wrong:
            is_quiet = time.monotonic() - self.world.last_seen > QUIET_SECONDS
            if not self.world.owed and is_quiet:
                return
            time.sleep(0.02)


def torture(
    folder: Path, ledger: Ledger, kills: list[Kill], seed: int, *, durability: str, packages: str = "", fault: str = ""
) -> Ends:
    """Tortures a store in this folder. `packages`: a folder with a delaymq in which faults can be planted."""
    store = ServedStore(folder, ledger, seed, durability=durability, packages=packages, fault=fault)
    return store.torture(kills)
