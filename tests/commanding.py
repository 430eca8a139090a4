"""Running the command as a user does: as a process, piped or on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from forked import Template, of_start, template

ANY_PORTS = ("--set", "server.port=0", "--set", "http.port=0")
LONG = frozenset({"bench", "demo", "serve"})
"""Verbs that start processes of their own, or whose imports are most of what they are."""
OF_SPARK = ("delaymq.spark.session", "delaymq.spark.jobs", "pyspark.sql.connect.session", "grpc", "pandas", "pyarrow")
"""Imports of the verbs of Spark, for which one process is kept."""


def arguments_of(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "delaymq", *arguments]


def environment(**changed: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELAYMQ_", "NO_COLOR"))}
    return {**kept, "TERM": "xterm", **changed}


def uncounted(counted: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment without what has the lines of each process counted: for processes that are measured, that must be
    alone, or of which there are hundreds, since each takes a tenth of a second longer where lines are counted.
    """
    return {name: value for name, value in counted.items() if not name.startswith("COVERAGE_")}


def command(
    *arguments: str | Path, given: bytes = b"", seconds: float = 60, **changed: str
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end; the streams are read as UTF-8."""
    words, variables = [str(word) for word in arguments], environment(**changed)
    whole = arguments_of(*words)
    ready = template_of(words, variables)
    if ready is not None:
        code, *streams = ready.run(words, given, seconds, variables)
    else:
        ended = subprocess.run(whole, input=given, capture_output=True, timeout=seconds, check=False, env=variables)
        code, streams = ended.returncode, [ended.stdout, ended.stderr]
    out, err = (stream.decode() for stream in streams)
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(whole, code, out, err)


def template_of(words: Sequence[str], variables: Mapping[str, str]) -> Template | None:
    """The process that is forked for a command that Python would start as it started that process, if there is one."""
    if not words or words[0] in LONG:
        return None
    started_with = of_start(variables)
    if words[0] == "spark":
        return template(frozenset(started_with.items()), OF_SPARK)
    return template(frozenset(started_with.items())) if started_with == of_start(os.environ) else None


def refused(code: int, *arguments: str | Path, given: bytes = b"", **changed: str) -> str:
    """Runs what must be refused with one line on standard error and nothing else; returns the line."""
    ended = command(*arguments, given=given, seconds=60, **changed)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert line.startswith("delaymq: ")
    return line


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, whole: list[str], **changed: str) -> None:
        self._leader, follower = pty.openpty()
        self.process = subprocess.Popen(
            whole, stdin=follower, stdout=follower, stderr=follower, env=environment(**changed), start_new_session=True
        )
        os.close(follower)
        self.shown = b""

    def read(self, seconds: float) -> bool:
        """Reads what comes next; False at the end, or where nothing came."""
        ready, _, _ = select.select([self._leader], [], [], seconds)
        if not ready:
            return False
        try:
            piece = os.read(self._leader, 65536)
        except OSError:
            return False
        self.shown += piece
        return bool(piece)

    def read_until(self, needle: bytes, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while needle not in self.shown:
            assert time.monotonic() < end, self.shown
            self.read(0.2)

    def end(self, seconds: float = 20) -> int:
        """Reads to the end; the exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, self.shown
            self.read(0.05)
        while self.read(0.05):
            pass
        os.close(self._leader)
        return self.process.returncode


@contextmanager
def on_terminal(*arguments: str | Path, before: str = "", **changed: str) -> Iterator[Terminal]:
    """The command; where `before` is given, Python that is run first, in the same process."""
    first = f"import sys; {before}; from delaymq.cli import main; sys.exit(main())"
    eager = [sys.executable, "-c", first, *map(str, arguments)]
    terminal = Terminal(eager if before else arguments_of(*map(str, arguments)), **changed)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
