from __future__ import annotations

import delaymq
from delaymq import errors


def test_the_public_face_is_sorted_and_whole() -> None:
    assert delaymq.__all__ == sorted(delaymq.__all__)
    assert all(hasattr(delaymq, name) for name in delaymq.__all__)
    assert set(errors.__all__) <= set(delaymq.__all__)


def test_no_error_of_the_core_is_without_its_class() -> None:
    assert delaymq.open.__func__ is delaymq.Store.open.__func__  # type: ignore[attr-defined]
