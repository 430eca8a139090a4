"""The whole way in small; `make pipeline` runs it with a million."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from soak.pipelines import ROWS_IN_CI, run


def test_what_is_loaded_is_handed_over_audited_and_archived_once(spark: Any, tmp_path: Path) -> None:
    found = run(spark, tmp_path, rows=ROWS_IN_CI, due_within_s=5)
    assert found.is_right(ROWS_IN_CI), found
