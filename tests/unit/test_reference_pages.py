"""The pages of docs/reference name everything that is public, each thing once, and nothing else."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = {page.name: page.read_text("utf-8") for page in sorted(FOLDER.glob("*.rst"))}
DIRECTIVE = re.compile(r"^\.\. auto(?P<kind>\w+):: (?P<name>\S+)$", re.MULTILINE)
MODULES = (
    "delaymq",
    "delaymq.errors",
    "delaymq.inspection",
    "delaymq.loading",
    "delaymq.rebuilding",
    "delaymq.spark",
    "delaymq.tables",
    "delaymq.testing",
    "delaymq.testing.strategies",
)
# Not of use by themselves: one is documented as a module, the other is the version.
NO_ENTRIES = {"delaymq.errors", "delaymq.__version__"}


def names_of(module: str) -> list[str]:
    return [f"{module}.{name}" for name in importlib.import_module(module).__all__]


def entries(text: str) -> list[str]:
    """What a page documents; a module stands for all its public names."""
    found: list[str] = []
    for kind, name in DIRECTIVE.findall(text):
        found += names_of(name) if kind == "module" else [name]
    return found


def resolved(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def missing(text: str) -> list[str]:
    """Public names that are on no page, under this name or, for classes and functions, under another."""
    written = set(entries(text))
    objects = [resolved(name) for name in written]
    public = [name for module in MODULES for name in names_of(module) if name not in NO_ENTRIES]
    return [
        name
        for name in public
        if name not in written and not (callable(resolved(name)) and any(resolved(name) is one for one in objects))
    ]


def test_every_public_name_is_on_a_page() -> None:
    assert missing("\n".join(PAGES.values())) == []


@pytest.mark.parametrize("name", ["delaymq.Store", "delaymq.spark.read_table", "delaymq.tables.SPLIT_BYTES"])
def test_a_name_on_no_page_is_found(name: str) -> None:
    text = "\n".join(PAGES.values())
    assert len(re.findall(rf":: {name}$", text, re.MULTILINE)) == 1
    assert missing(re.sub(rf"^\.\. auto\w+:: {name}$", "", text, flags=re.MULTILINE)) == [name]


def test_no_name_is_documented_twice() -> None:
    written = entries("\n".join(PAGES.values()))
    assert sorted(written) == sorted(set(written))


@pytest.mark.parametrize("page", PAGES)
def test_every_entry_is_public(page: str) -> None:
    public = {name for module in MODULES for name in names_of(module)}
    assert set(entries(PAGES[page])) <= public


def test_every_page_is_in_the_index() -> None:
    listed = re.findall(r"^   (\w+)$", PAGES["index.rst"], re.MULTILINE)
    assert sorted(f"{name}.rst" for name in listed) == sorted(PAGES.keys() - {"index.rst"})
