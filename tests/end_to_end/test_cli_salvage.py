"""salvage: what is saved of stores that cannot be opened any more, and what is said to be gone."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import delaymq
from commanding import command, refused
from crafting import SEGMENT_BYTES, contents, drain, flip, overwrite, place_of, publish_all, runs_of, wait_until
from crafting import refused as open_refused
from delaymq import Corrupt, MissingFile

NOW = [b"now %03d" % number for number in range(120)]
LATE = [b"late %03d" % number for number in range(120)]
MORE = [b"more %03d " % number + b"m" * 500 for number in range(300)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed store: ready messages that one group has finished in part and another not at all, pending
    ones with a cancelled one among them, two checkpoints, and facts behind them over several segments."""
    path = tmp_path / "store"
    with delaymq.open(path, segment_bytes=SEGMENT_BYTES) as store:
        store.subscribe("now", group="slow").close()
        publish_all(store, "now", NOW)
        with store.subscribe("now", group="quick") as messages:
            for _ in range(100):
                message = messages.get(5)
                assert message is not None
                message.ack()
        receipts = publish_all(store, "late", LATE, 7200)
        store.cancel(receipts[7])
        wait_until(lambda: store.status().ready == len(NOW))
        store.checkpoint()
        publish_all(store, "more", MORE[:60], 3600)
        store.checkpoint()
        publish_all(store, "more", MORE[60:], 3600)
        store.cancel(receipts[8])
    return path


def looked_at(folder: Path, code: int = 1) -> dict[str, Any]:
    before = contents(folder)
    ended = command("salvage", "--store", folder, "--json")
    assert ended.returncode == code, ended.stderr
    assert contents(folder) == before
    found = json.loads(ended.stdout)
    assert found["written"] is False
    assert isinstance(found, dict)
    return found


def saved(folder: Path, code: int = 1) -> tuple[dict[str, Any], Path]:
    """Salvages, with the damaged store as it was."""
    before = contents(folder)
    into = folder.with_name("saved")
    ended = command("salvage", "--store", folder, "--into", into, "--yes", "--json")
    assert ended.returncode == code, ended.stderr
    assert contents(folder) == before
    found = json.loads(ended.stdout)
    assert found["written"] is True
    return found, into


def pending(into: Path) -> Counter[str]:
    return Counter({one.name: one.pending for one in delaymq.inspect(into).subjects if one.pending})


def everything(into: Path, group: str) -> list[bytes]:
    with delaymq.open(into) as store, store.subscribe("now", group=group) as messages:
        return drain(messages, 0.5)


ALL = Counter({"late": 118, "more": 300})


def test_a_sound_store_is_saved_whole(folder: Path) -> None:
    found, into = saved(folder, code=0)
    assert (found["damage"], found["lost"], found["gaps"]) == ([], [], [])
    assert found["saved"] == 118 + 300 + 120
    assert pending(into) == ALL
    assert {(one["name"], one["subject"]): one["unfinished"] for one in found["groups"]} == {
        ("quick", "now"): 20,
        ("slow", "now"): 120,
    }
    # What `quick` has finished does not come to it again, and slow gets everything once.
    assert everything(into, "quick") == NOW[100:]
    assert sorted(everything(into, "slow")) == NOW


def test_due_times_and_bodies_stay(folder: Path) -> None:
    dues = {one.name: one.next_due for one in delaymq.inspect(folder).subjects}
    _, into = saved(folder, code=0)
    assert {one.name: one.next_due for one in delaymq.inspect(into).subjects if one.pending} == {
        name: due for name, due in dues.items() if isinstance(due, datetime)
    }
    _, at = place_of(into, MORE[299])
    assert at


def test_a_damaged_batch_header_behind_the_checkpoint(folder: Path) -> None:
    path, at = place_of(folder, MORE[150])
    flip(path, path.read_bytes().rindex(b"DMQBATCH", 0, at) + 20)
    open_refused(Corrupt, folder)
    found, into = saved(folder)
    [damage] = found["damage"]
    assert damage["path"] == f"log/{path.name}"
    assert (damage["expected"], damage["found"]) == ("a batch header", "other bytes")
    assert (found["gaps"], found["lost_count"]) == ([], 0)
    assert pending(into) == ALL
    assert everything(into, "quick") == NOW[100:]


def test_a_damaged_record_loses_itself_alone(folder: Path) -> None:
    path, at = place_of(folder, MORE[150])
    flip(path, at - 20)
    open_refused(Corrupt, folder)
    found, into = saved(folder)
    assert sum(gap["count"] for gap in found["gaps"]) == 1
    assert pending(into) == ALL - Counter({"more": 1})
    assert sorted(everything(into, "slow")) == NOW


def test_a_missing_segment_loses_what_lay_there_alone(folder: Path) -> None:
    path, _ = place_of(folder, MORE[150])
    inside = sum(body in path.read_bytes() for body in MORE)
    path.unlink()
    open_refused(MissingFile, folder)
    found, into = saved(folder)
    assert found["damage"][0]["words"].startswith(f"log/{path.name} is missing")
    gone = sum(gap["count"] for gap in found["gaps"])
    kept = pending(into)
    assert kept["late"] == 118
    assert inside > 20
    assert kept["more"] == 300 - inside
    assert gone >= inside
    assert sorted(everything(into, "slow")) == NOW


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("way", ["missing", "short", "footer"])
def test_a_run_that_cannot_be_opened_comes_from_the_log(folder: Path, kind: int, way: str) -> None:
    path = runs_of(folder, kind)[0]
    if way == "missing":
        path.unlink()
    elif way == "short":
        path.write_bytes(path.read_bytes()[:-8])
    else:
        flip(path, path.stat().st_size - 60)
    open_refused(MissingFile if way == "missing" else Corrupt, folder)
    found, into = saved(folder)
    assert any(path.name in damage["path"] for damage in found["damage"])
    assert found["lost_count"] == 0
    assert pending(into) == ALL
    assert set(everything(into, "slow")) == set(NOW)
    assert set(everything(into, "quick")) >= set(NOW[100:])


def test_a_damaged_identity_is_known_by_its_log(folder: Path) -> None:
    flip(folder / "identity", 20)
    found, into = saved(folder)
    assert found["damage"][0]["path"] == "identity"
    assert pending(into) == ALL
    (folder / "identity").unlink()
    assert looked_at(folder)["saved"] == found["saved"]


def test_checkpoints_and_the_start_of_the_log_gone(folder: Path) -> None:
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    first, _ = place_of(folder, NOW[0])
    for path in sorted((folder / "log").glob("*.segment")):
        if path <= first:
            path.unlink()
    found, into = saved(folder)
    assert found["is_blind"] is True
    # The names of subjects went with the log; what is due late was copied into runs.
    kept = pending(into)
    assert {name.partition(".")[0] for name in kept} == {"salvaged"}
    assert sorted(kept.values()) == [118, 300]
    assert found["lost_count"] >= len(NOW)
    assert "nobody can say" in command("salvage", "--store", folder).stdout


def test_one_damaged_payload_is_lost_by_name(folder: Path) -> None:
    path, at = place_of(folder, MORE[150])
    flip(path, at)
    found, into = saved(folder)
    [lost] = found["lost"]
    assert (lost["subject"], lost["path"]) == ("more", f"log/{path.name}")
    assert lost["due_ms"]
    assert found["lost_count"] == 1
    assert pending(into) == ALL - Counter({"more": 1})


def test_a_damaged_payload_that_was_copied_is_not_lost(folder: Path) -> None:
    path, at = place_of(folder, LATE[50])
    flip(path, at)
    found, into = saved(folder, code=0)
    assert found["lost_count"] == 0
    assert pending(into) == ALL
    [run] = [run for run in runs_of(folder, 1) if LATE[50] in run.read_bytes()]
    flip(run, run.read_bytes().index(LATE[50]))
    assert looked_at(folder)["lost_count"] == 1


def test_a_copied_payload_that_is_damaged_comes_from_the_log(folder: Path) -> None:
    [run] = [run for run in runs_of(folder, 1) if LATE[50] in run.read_bytes()]
    flip(run, run.read_bytes().index(LATE[50]))
    assert looked_at(folder, code=0)["lost_count"] == 0


def test_garbage_over_a_whole_segment(folder: Path) -> None:
    path, _ = place_of(folder, LATE[0])
    overwrite(path, 0, bytes(range(256)) * (path.stat().st_size // 256))
    found, into = saved(folder)
    assert found["lost_count"] > 0
    assert pending(into)["late"] == 118
    left = everything(into, "slow")
    assert len(left) + found["lost_count"] == len(NOW)


def test_nothing_is_written_without_yes(folder: Path) -> None:
    into = folder.with_name("saved")
    ended = command("salvage", "--store", folder, "--into", into)
    assert ended.returncode == 0
    assert "Nothing was changed." in ended.stdout
    assert "say --yes as well" in ended.stdout
    assert not into.exists()
    assert "expected --into NEWFOLDER" in refused(2, "salvage", "--store", folder, "--yes")


def test_what_is_there_is_not_written_over(folder: Path) -> None:
    into = folder.with_name("saved")
    into.mkdir()
    (into / "letter.txt").write_text("dear reader")
    ended = command("salvage", "--store", folder, "--into", into, "--yes")
    assert ended.returncode == 2
    assert "into: expected a folder that is new or empty" in ended.stderr
    assert [path.name for path in into.iterdir()] == ["letter.txt"]
    assert "into:" in command("salvage", "--store", folder, "--into", folder, "--yes").stderr


def test_a_store_that_is_open_is_left_to_its_owner(folder: Path) -> None:
    with delaymq.open(folder):
        assert "another process" in refused(5, "salvage", "--store", folder)


def test_what_is_no_store_has_nothing_to_save(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    assert "not a delaymq store" in refused(3, "salvage", "--store", tmp_path)


def test_the_list_is_loud(folder: Path) -> None:
    path, at = place_of(folder, MORE[150])
    flip(path, at - 20)
    shown = command("salvage", "--store", folder).stdout
    assert shown.startswith(f"DAMAGED: {folder}\n  log/{path.name} is damaged at offset ")
    assert "GONE: 1 fact, which may" in shown
    assert "messages can be saved" in shown
    assert shown.endswith("--into NEWFOLDER --yes\n")


def test_series_are_listed_and_go_on(folder: Path) -> None:
    with delaymq.open(folder) as store:
        hourly = store.recur("checks", b"disks", name="hourly", every=3600)
        store.recur("reports", b"sales", name="daily", cron="30 9 * * mon-fri", zone="Europe/Berlin")
        store.recur("reports", b"none", name="ended", every=60)
        assert store.end_recurring("reports", "ended")
    path, at = place_of(folder, MORE[150])
    flip(path, at - 20)
    shown = [line.split() for line in command("salvage", "--store", folder).stdout.splitlines()]
    heads = shown.index(["series", "subject", "rule", "zone"])
    assert shown[heads + 1 : heads + 3] == [
        ["hourly", "checks", "every", "3600000ms", "UTC"],
        ["daily", "reports", "30", "9", "*", "*", "mon-fri", "Europe/Berlin"],
    ]
    found, into = saved(folder)
    assert [(one["subject"], one["name"]) for one in found["series"]] == [("checks", "hourly"), ("reports", "daily")]
    with delaymq.open(into) as store:
        going = {series.name: series for series in store.recurring()}
        assert set(going) == {"hourly", "daily"}
        wait_until(lambda: store.recurring("checks")[0].due is not None)
        again = store.recurring("checks")[0].due
        assert again is not None
        assert hourly.due is not None
        assert (again - hourly.due).total_seconds() == 3600
        assert [one.due for one in store.pending("checks")] == [hourly.due, again]
