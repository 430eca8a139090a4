"""docs/reference.md is what the docstrings say, of everything that is public."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

import delaymq
import reference_page
from delaymq import errors, inspection, loading, rebuilding, tables, testing
from delaymq.testing import strategies

ENTRIES = [entry for section in reference_page.SECTIONS for entry in section.entries]

PLAIN_VALUES = {
    "SPLIT_BYTES",
    "TABLES",
    "UNFINISHED",
    "VERSION",
    "OnDamage",
    "RUN_BYTES_MAX",
    "RUN_ROWS_MAX",
    "OnBadRow",
    "PIECE_SEQUENCES",
    "Kind",
}


def test_the_page_is_as_make_reference_writes_it() -> None:
    written = reference_page.PAGE.read_text("utf-8")
    assert written == reference_page.page(), "docs/reference.md is stale: run `make reference`"


def test_no_default_names_a_module_that_nobody_imports() -> None:
    page = reference_page.PAGE.read_text("utf-8")
    assert "_recover." not in page
    assert "signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)" in page


def test_another_docstring_makes_another_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = shutil.copytree(reference_page.SOURCES, tmp_path / "delaymq", ignore=shutil.ignore_patterns("*.so"))
    changed = sources / "store.py"
    text = changed.read_text("utf-8")
    assert text.count("True until it is closed") == 1
    changed.write_text(text.replace("True until it is closed", "False after it was closed"), "utf-8")
    monkeypatch.setattr(reference_page, "SOURCES", sources)
    reference_page.module.cache_clear()
    try:
        assert "False after it was closed" in reference_page.page()
    finally:
        reference_page.module.cache_clear()


def test_every_public_name_stands_in_the_page_once() -> None:
    expected = sorted(
        [
            *(set(delaymq.__all__) - set(errors.__all__) - {"errors", "__version__"}),
            *(f"testing.{name}" for name in testing.__all__),
            *(f"testing.strategies.{name}" for name in strategies.__all__),
            *(f"inspection.{name}" for name in set(inspection.__all__) - set(delaymq.__all__)),
            *(f"tables.{name}" for name in set(tables.__all__) - set(delaymq.__all__) - PLAIN_VALUES),
            *(f"loading.{name}" for name in set(loading.__all__) - PLAIN_VALUES),
            *(f"rebuilding.{name}" for name in set(rebuilding.__all__) - PLAIN_VALUES),
        ]
    )
    assert sorted(entry.name for entry in ENTRIES) == expected


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_its_heading(name: str) -> None:
    assert f"\n### {name}\n" in reference_page.page()


@pytest.mark.parametrize(
    "kind", [delaymq.Store, delaymq.Subscription, delaymq.Message, delaymq.Receipt, delaymq.Pin, testing.Clock]
)
def test_every_method_and_property_is_told_of(kind: type) -> None:
    page = reference_page.page()
    for name in (name for name in dir(kind) if not name.startswith("_")):
        told = (f"\n#### {kind.__name__}.{name}\n", f"\n- `{name}` (", f"\n- `{name}`: ", f"\n`{name}` is [")
        assert any(words in page for words in told), name


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_has_words(entry: reference_page.Entry) -> None:
    blocks = list(reference_page.entry_blocks(entry))
    assert any(block[0].isupper() for block in blocks), blocks


@pytest.mark.parametrize("kind", [delaymq.Status, delaymq.Group, delaymq.Publish, delaymq.Inspection])
def test_every_field_of_what_a_store_tells_has_words(kind: type) -> None:
    page = reference_page.page()
    for field in dataclasses.fields(kind):
        assert f"\n- `{field.name}`: " in page
