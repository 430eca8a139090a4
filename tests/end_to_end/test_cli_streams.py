"""The command with standard streams that are closed, full, or in an encoding of few characters."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

import delaymq
from commanding import arguments_of, command, environment, on_terminal, refused

ACCENTED = "é☃🎈"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def under_shell(
    redirected: str, *arguments: str | Path, encoding: str = "utf-8", **changed: str
) -> subprocess.CompletedProcess[str]:
    """Runs it as a shell does, which can close a stream; what it prints is read in that encoding."""
    line = f"{shlex.join(arguments_of(*map(str, arguments)))} {redirected}"
    chosen = environment(**changed)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, encoding=encoding, timeout=60, check=False, env=chosen, input=""
    )


@pytest.mark.parametrize("arguments", [("publish", "a", "-"), ("publish", "--jsonl", "-"), ("cancel", "-")], ids=str)
def test_standard_input_that_is_closed_cannot_be_read(folder: Path, arguments: tuple[str, ...]) -> None:
    delaymq.open(folder).close()
    ended = under_shell("<&-", *arguments, "--store", folder)
    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("delaymq: ")
    assert line.endswith(": cannot be read: standard input is closed")


def test_nothing_is_done_where_nobody_can_be_told(folder: Path) -> None:
    ended = under_shell(">&-", "publish", "a", "x", "--store", folder)
    assert ended.returncode == 3
    assert ended.stderr == "delaymq: Standard output is closed, so the result could not be printed; nothing was done.\n"
    assert not folder.exists()
    assert under_shell(">&- 2>&- <&-", "inspect", "--store", folder).returncode == 3


def test_a_store_gets_no_number_of_a_stream(folder: Path) -> None:
    """With standard error closed its number is free, and what is printed to it would land in a file."""
    ended = under_shell("2>&- <&-", "publish", "a", "x", "--store", folder)
    assert ended.returncode == 0
    assert str(delaymq.Receipt.parse(ended.stdout.strip())) == ended.stdout.strip()
    ended = under_shell("2>&- <&-", "cancel", "word", "--store", folder)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")


def test_output_that_is_full_is_one_line(folder: Path) -> None:
    ended = under_shell(">/dev/full", "publish", "a", "x", "--store", folder)
    assert ended.returncode == 3
    assert ended.stderr == "delaymq: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_receipt_is_printed_in_any_encoding(folder: Path, encoding: str) -> None:
    arguments = ("publish", ACCENTED, "x", "--json", "--store", folder)
    ended = under_shell("", *arguments, encoding=encoding, PYTHONIOENCODING=encoding)
    assert (ended.returncode, ended.stderr) == (0, "")
    said = json.loads(ended.stdout)
    assert said["subject"] == ACCENTED
    assert str(delaymq.Receipt.parse(said["receipt"])) == said["receipt"]


def test_names_that_an_encoding_has_not_are_escaped(folder: Path) -> None:
    with delaymq.open(folder) as store:
        store.publish(ACCENTED, ACCENTED.encode())
        with store.subscribe(ACCENTED, group=ACCENTED) as messages:
            message = messages.get(5)
            assert message is not None
            message.dead_letter(ACCENTED)
    for arguments in (("groups", "list"), ("inspect",), ("dead", "list", ACCENTED, ACCENTED)):
        plain = command(*arguments, "--store", folder, PYTHONIOENCODING="ascii")
        assert (plain.returncode, plain.stderr) == (0, "")
        assert "\\u00e9\\u2603\\ud83c\\udf88" in plain.stdout
        ended = command(*arguments, "--json", "--store", folder, PYTHONIOENCODING="ascii")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert all(json.loads(line) for line in ended.stdout.splitlines())
        assert ACCENTED in str(json.loads(ended.stdout))
    line = refused(2, "groups", "remove", "a", ACCENTED, "--store", folder, PYTHONIOENCODING="ascii")
    assert "\\u00e9" in line


def test_receipts_that_are_no_text_are_refused(folder: Path) -> None:
    delaymq.open(folder).close()
    assert "line 2: " in refused(2, "cancel", "-", "--store", folder, given=b"\n\xff\xfe\x00\n")


def test_arguments_that_are_no_text_are_refused(folder: Path) -> None:
    cases = (("publish", "é", "x"), ("publish", "a", "x", "--tag", "é"), ("consume", "é", "--group", "g"))
    for arguments in (*((*one, "--store", str(folder)) for one in cases), ("config", "check", "--set", "é=é")):
        refused(2, *arguments, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")


@pytest.mark.usefixtures("uncounted_processes")
def test_a_wait_of_a_million_years_is_one(folder: Path) -> None:
    """Where it is longer than the system can wait, the command waits as long as it can."""
    delaymq.open(folder).close()
    with on_terminal("inspect", "--watch", "--every", "365000000d", "--store", folder) as terminal:
        terminal.read_until(b"in all")
        # The rest of the page may come later on a busy machine; what does not wait shows page after page.
        assert any(not terminal.read(1.0) for _ in range(1_000))
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert b"Traceback" not in terminal.shown
