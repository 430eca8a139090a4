"""The parts of the harness that need no root: what it makes of what a program tells, and when it may not pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from full_disks import cannot
from power_cuts import equipment, faults
from power_cuts.__main__ import Budget, main
from power_cuts.cutting import Plan, Round
from power_cuts.findings import Found, summary, told
from power_cuts.images import EXT4
from power_cuts.telling import Ledger, Program, in_doubt

PUBLISH = '{"kind":"publish","at_ms":1,"id":"0-0","subject":"s","digest":"d","delay_ms":0}'
PUBLISHED = '{"kind":"published","at_ms":1,"id":"0-0","result":"acknowledged","receipt":"dmq1-x"}'
DELIVERED = '{"kind":"delivered","at_ms":1,"id":"0-0","subject":"s","digest":"d","group":"g","consumer":"c"}'
ACKNOWLEDGED = '{"kind":"acknowledged","at_ms":1,"id":"0-0","group":"g","result":"acknowledged"}'


def told_by(ledger: Ledger, *steps: str) -> Program:
    """A program that tells these lines, each piece after a line was read from it."""
    return Program(ledger, [sys.executable, "-c", "import sys, time\n" + "\n".join(steps)])


def says(text: str) -> str:
    return f"sys.stdout.write({text!r}); sys.stdout.flush()"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "a.ledger", "a test", 1, {})) as ledger:
        yield ledger


def lines(ledger: Ledger) -> list[dict[str, object]]:
    return [json.loads(line) for line in ledger.path.read_text(encoding="utf-8").splitlines()]


def test_answers_that_are_read_after_a_cut_are_in_doubt() -> None:
    assert json.loads(in_doubt(PUBLISHED.encode()))["result"] == "ambiguous"
    assert json.loads(in_doubt(PUBLISHED.encode()))["receipt"] == "dmq1-x"
    assert json.loads(in_doubt(ACKNOWLEDGED.encode()))["result"] == "ambiguous"
    assert in_doubt(DELIVERED.encode()) == DELIVERED.encode()
    assert in_doubt(PUBLISH.encode()) == PUBLISH.encode()


def test_what_was_read_before_a_cut_counts_and_a_line_that_is_not_whole_does_not(ledger: Ledger) -> None:
    whole = f"{PUBLISH}\n{PUBLISHED}\n{DELIVERED}\n"
    program = told_by(ledger, says(whole), "time.sleep(0.3)", says(f'{ACKNOWLEDGED}\n{{"kind":"publ'))
    cuts: list[int] = []
    assert program.read_until_answered(lambda: cuts.append(len(lines(ledger))), time.monotonic() + 20)
    # The cut was made before anything was done with what was read.
    assert cuts == [1]
    program.is_cut = True
    assert program.end(5) == 0
    assert [line.get("result") for line in lines(ledger)[1:]] == [None, "acknowledged", None, "ambiguous"]
    assert program.receipts == ["0-0=dmq1-x"]


def test_how_it_ended_is_no_line_of_the_ledger(ledger: Ledger) -> None:
    ended = '{"kind":"ended","at_ms":1,"cause":"refused","error":"identity is damaged"}'
    program = told_by(ledger, says(f"{ended}\n"), "sys.exit(3)")
    assert program.end(20) == 3
    assert program.cause == "refused: identity is damaged"
    assert [line["kind"] for line in lines(ledger)] == ["run"]


def test_a_ledger_with_a_loss_is_told(ledger: Ledger) -> None:
    second = PUBLISH.replace("0-0", "0-1")
    answered = PUBLISHED.replace("0-0", "0-1")
    acknowledge = '{"kind":"acknowledge","at_ms":1,"id":"0-0","group":"g"}'
    texts = [PUBLISH, PUBLISHED, DELIVERED, acknowledge, ACKNOWLEDGED, second, answered]
    ledger.copy("".join(f"{text}\n" for text in texts).encode())
    ledger.tell("drained")
    found = Found()
    assert not found.judge(ledger.path, 0)
    assert found.broken["lost"] == 1
    figures = summary(found, 1)
    assert figures["lost"] == 1
    assert "1 lost" in told(figures)
    assert any("'0-1'" in what for what in found.wrong)


def test_a_ledger_that_came_to_no_end_is_told(ledger: Ledger) -> None:
    found = Found()
    assert not found.judge(ledger.path, 0)
    assert found.broken["unfit"] == 1


def test_a_layer_that_did_not_run_fails_where_it_must_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(equipment, "why_none", lambda: "nothing is possible here")
    arguments = ["--program", "absent", "--folder", str(tmp_path)]
    monkeypatch.setattr(equipment, "must_run", lambda: False)
    assert main(arguments) == 0
    monkeypatch.setattr(equipment, "must_run", lambda: True)
    assert main(arguments) == 2
    shown = capsys.readouterr().out
    assert "power cuts: ext4 was not run: nothing is possible here" in shown
    assert json.loads(shown.splitlines()[1])["not_run"] == dict.fromkeys(("ext4", "xfs"), "nothing is possible here")
    assert not list(tmp_path.iterdir())


def test_file_systems_that_do_not_mount_are_borne_where_they_are_rare() -> None:
    found = Found()
    found.cut_many("ext4", 100)
    for _ in range(4):
        found.unmountable("ext4", "Bad message")
    assert not found.is_broken
    assert summary(found, 1)["others"] == {"unmountable ext4": 4}
    found.unmountable("ext4", "Bad message")
    assert found.broken["unmountable"] == 1


def test_a_fault_that_is_not_seen_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clean(one: Round, _goes_on: object) -> bool:
        one.found.cut_many("ext4", 10)
        return True

    monkeypatch.setattr(Round, "run", clean)
    found = Found()
    faults.prove(faults.FAULTS[0], EXT4, Plan(tmp_path, tmp_path, 1), iter(range(100)), found)
    assert found.broken["fault missed"] == 1


def test_a_program_without_the_feature_leaves_its_faults_not_run(tmp_path: Path) -> None:
    [fault] = [fault for fault in faults.FAULTS if fault.is_planted]
    found = Found()
    faults.prove(fault, EXT4, Plan(tmp_path, tmp_path, 1), iter(()), found)
    assert "AckBeforeSync" in next(iter(found.not_run))


def test_a_budget_gives_out_as_many_cuts_as_it_has() -> None:
    budget = Budget(3, 0)
    assert [budget.takes() for _ in range(5)] == [True, True, True, False, False]
    assert not budget.is_left()


IMAGES = """
    import os, sys
    from pathlib import Path
    from power_cuts import equipment
    from power_cuts.images import EXT4, Image, Kind
    folder = Path(sys.argv[1])
    if reason := equipment.why_none() or equipment.why_not(EXT4):
        print("cannot", reason)
        raise SystemExit
    try:
        Image(Kind("ext4", ("false",), 4), folder)
        raise SystemExit("made by a program that failed")
    except Exception as error:
        assert "false" in str(error), error
    assert not list(folder.iterdir())
    with Image(EXT4, folder) as image:
        kept, lost = image.folder / "kept", image.folder / "lost"
        with kept.open("wb") as file:
            file.write(b"y" * 4096)
            os.fsync(file.fileno())
        lost.write_bytes(b"z")
        image.cut()
        try:
            (image.folder / "refused").write_bytes(b"x")
            raise SystemExit("written without power")
        except OSError:
            pass
        image.restore()
        assert kept.read_bytes() == b"y" * 4096
        assert not lost.exists()
    assert not list(folder.iterdir())
    print("cut")
"""


def test_a_cut_loses_what_was_not_synced_keeps_what_was_and_leaves_nothing_behind(tmp_path: Path) -> None:
    # In a process of its own: its mounts are nobody else's.
    command = [sys.executable, "-c", textwrap.dedent(IMAGES), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env=environment)
    assert ended.returncode == 0, ended.stderr
    if ended.stdout.startswith("cannot"):
        cannot(ended.stdout)
    assert ended.stdout == "cut\n"
