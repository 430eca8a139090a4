"""What an audit finds in copies of real stores whose log or state says what it must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pytest

import delaymq
from delaymq.spark.jobs import accounting
from delaymq.tables import Range, read_range
from spark.jobs import forging, planting
from spark.jobs.test_accounting import audit_of, kinds_of


def test_what_is_given_again_after_an_acknowledgement_is_doubled(tmp_path: Path) -> None:
    path = forging.taken_twice(tmp_path / "store")
    whole = audit_of(path)
    assert (whole.outcomes, whole.findings) == ({"acknowledged": 5, "in_flight": 5}, ())
    with delaymq.snapshot(path) as snapshot:
        rows = pyarrow.table(snapshot.to_arrow_batches("deliveries")).to_pylist()
    forging.give_again(path)
    found = audit_of(path)
    assert kinds_of(found) == [("doubled", row["sequence"]) for row in rows if row["outcome"] == "acknowledged"]
    assert {(one.group, one.words) for one in found.findings} == {("g", "given again to a group that had it")}


def test_what_the_state_has_forgotten_is_lost(tmp_path: Path) -> None:
    path = forging.cancelled(tmp_path / "store")
    whole = audit_of(path)
    assert (whole.outcomes, whole.findings) == ({"cancelled": 10, "pending": 10}, ())
    forgotten = forging.forget(path, 4)
    found = audit_of(path)
    assert found.outcomes == {"cancelled": 9, "pending": 10, "refused": 1}
    assert kinds_of(found) == [("lost", forgotten)]
    assert found.findings[0].words == "stored without terms, and nothing says what became of it"


def test_what_is_stored_and_in_no_row_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No store can make this: each message of a log has a row. So the table of a real one is read without it."""
    path = planting.waiting(tmp_path / "store")
    assert audit_of(path).is_clean
    with delaymq.snapshot(path) as snapshot:
        rows = pyarrow.table(snapshot.to_arrow_batches("deliveries")).to_pylist()
    missing = rows[70]["sequence"]

    def read(path: str, part: Range, **options: Any) -> Any:
        found = read_range(path, part, **options)
        return Without(found, missing) if part.table == "deliveries" else found

    monkeypatch.setattr(accounting, "read_range", read)
    found = audit_of(path)
    assert kinds_of(found) == [("lost", missing), ("doubled", missing)]
    assert found.findings[0].words == "stored, and nothing says what became of it"


class Without:
    """Rows of a range but one."""

    damages = ()

    def __init__(self, rows: Any, sequence: int) -> None:
        self._rows, self._sequence = rows, sequence

    def __arrow_c_stream__(self, schema: object = None) -> object:
        table = pyarrow.table(self._rows)
        kept = table.filter(pyarrow.compute.not_equal(table.column("sequence"), self._sequence))
        return kept.__arrow_c_stream__(schema)
