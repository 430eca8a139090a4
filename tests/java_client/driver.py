"""QMQ's own client in a process of Java's: compiled, started, told what to do and heard."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

Something = TypeVar("Something")
FOLDER = Path(__file__).parent
SOURCE = FOLDER / "QmqClient.java"
PROGRAMS = ("java", "javac", "mvn")
PATIENCE_SECONDS = 60
# Less than what a test may take in all.
FETCH_SECONDS_MAX = 80


class MissingJavaError(Exception):
    """The client cannot be had on this machine; says why."""


@dataclass(frozen=True)
class Got:
    """A message that came to a listener or to who pulled."""

    subject: str
    group: str
    name: str
    times: int
    tags: tuple[str, ...]
    # After its schedule, by the client's clock; -1 for a message without one.
    late_ms: int


def built(folder: Path) -> str:
    """Fetches the client and compiles the program into that folder; what Java must be told of it."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise MissingJavaError(f"there is no {', no '.join(missing)} on this machine")
    listed = folder / "jars.txt"
    fetching = ["mvn", "-B", "-q", "-f", str(FOLDER / "pom.xml"), "dependency:build-classpath"]
    # Without a network first: what was fetched once is asked for no more.
    command = [*fetching, f"-Dmdep.outputFile={listed}"]
    if _run([*command, "-o"]).returncode != 0:
        try:
            ended = _run(command)
        except subprocess.TimeoutExpired:
            raise MissingJavaError(f"com.qunar.qmq:qmq did not come within {FETCH_SECONDS_MAX} seconds") from None
        if ended.returncode != 0:
            said = [line for line in ended.stdout.splitlines() if "ERROR" in line]
            raise MissingJavaError(f"com.qunar.qmq:qmq does not resolve: {' '.join(said[:1])}")
    jars = listed.read_text().strip()
    compiled = _run(["javac", "-Xlint:all", "-Werror", "-cp", jars, "-d", str(folder), str(SOURCE)])
    assert compiled.returncode == 0, compiled.stdout
    return f"{folder}:{jars}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=FETCH_SECONDS_MAX, check=False
    )


class JavaClient:
    """One process. What it says is sorted by a thread of its own."""

    def __init__(self, class_path: str, http_address: str, client_id: str, log: Path) -> None:
        self._log = log
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path, "QmqClient"]
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [*command, f"http://{http_address}/meta/address", client_id],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._got: queue.Queue[Got] = queue.Queue()
        self._sent: queue.Queue[tuple[str, bool]] = queue.Queue()
        self._pulled: queue.Queue[int] = queue.Queue()
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        if not self._ready.wait(PATIENCE_SECONDS):
            self._end()
            raise AssertionError(self._log.read_text())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and self._process.poll() is None:
                self._tell("quit")
                assert self._process.wait(PATIENCE_SECONDS) == 0, self._log.read_text()
        finally:
            self._end()

    def kill(self) -> None:
        """Kills the process: it says nothing more to its server."""
        self._process.kill()
        self._process.wait()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.rstrip("\n").split("\t"):
                case ["ready"]:
                    self._ready.set()
                case ["sent", name, stored]:
                    self._sent.put((name, stored == "true"))
                case ["got", subject, group, name, times, tags, late_ms]:
                    tagged = tuple(tags.split(",")) if tags else ()
                    self._got.put(Got(subject, group, name, int(times), tagged, int(late_ms)))
                case ["pulled", _, _, count]:
                    self._pulled.put(int(count))
                case _:
                    pass

    def _tell(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    def _next(self, what: queue.Queue[Something], wanted: str) -> Something:
        try:
            return what.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise AssertionError(f"{wanted}; {self._log.read_text()[-4000:]}") from None

    def send(
        self, subject: str, name: str, *, delay_ms: int = 0, tags: tuple[str, ...] = (), **properties: str
    ) -> None:
        """Sends without waiting for what becomes of it."""
        pairs = ",".join(f"{key}={value}" for key, value in properties.items())
        self._tell("send", subject, name, str(delay_ms), ",".join(tags), pairs)

    def sent(self) -> tuple[str, bool]:
        """The next one of which it is known what became of it."""
        return self._next(self._sent, "nothing is said of what was sent")

    def store(self, subject: str, name: str, *, delay_ms: int = 0, tags: tuple[str, ...] = (), **more: str) -> None:
        """Sends, and again while it is not stored: a client gives up in milliseconds while its server is away."""
        while True:
            self.send(subject, name, delay_ms=delay_ms, tags=tags, **more)
            found, is_stored = self.sent()
            assert found == name
            if is_stored:
                return

    def listen(self, subject: str, group: str, *, broadcast: bool = False, tags: tuple[str, ...] = ()) -> None:
        """Listens; what is sent before it pulled for the first time may not come."""
        self._tell("listen", subject, group, str(broadcast).lower(), ",".join(tags))

    def hold(self, *names: str) -> None:
        """Listeners of this process never finish messages with these names."""
        self._tell("hold", ",".join(names))

    def stop(self, subject: str) -> None:
        """Ends listening."""
        self._tell("stop", subject)

    def got(self) -> Got:
        """What came next."""
        return self._next(self._got, "nothing comes")

    def arrived(self, wait_ms: int) -> list[Got]:
        """What has come, and the next within that time."""
        found: list[Got] = []
        try:
            found.append(self._got.get(timeout=wait_ms / 1000))
            while True:
                found.append(self._got.get_nowait())
        except queue.Empty:
            return found

    def got_until(self, done: Callable[[list[Got]], bool]) -> list[Got]:
        """All that comes until it is enough."""
        found: list[Got] = []
        while not done(found):
            found.append(self.got())
        return found

    def pull(self, subject: str, group: str, count: int, wait_ms: int) -> list[Got]:
        """Pulls and acknowledges."""
        self._tell("pull", subject, group, str(count), str(wait_ms))
        return [self.got() for _ in range(self._next(self._pulled, "the pull does not end"))]
