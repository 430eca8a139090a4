"""docs/cli.md says what the command does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from delaymq import errors
from delaymq.cli import VERBS
from delaymq.cli.exit_codes import KINDS, MEANINGS, Exit, code_of
from delaymq.cli.input.json_lines import READ_NAMES
from delaymq.cli.input.publish_options import READERS
from delaymq.cli.input.settings import KEYS
from delaymq.inspection import HeldSpace, Holder, InspectedFile, InspectedGroup, InspectedSubject, Inspection
from delaymq.message import PublishOptions

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def table_under(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip().strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_table_of_exit_codes_is_the_one_in_the_code() -> None:
    assert table_under("Exit codes") == [[str(int(code)), code.name, MEANINGS[code]] for code in Exit]


def test_the_table_of_settings_is_the_one_in_the_code() -> None:
    expected = [[f"`{key.name}`", f"`{key.variable}`", key.expected, key.meaning, key.default] for key in KEYS]
    assert table_under("Settings") == expected


def test_every_verb_is_told_of() -> None:
    for name in VERBS:
        assert f"| `{name}` |" in PAGE


def test_every_name_that_is_read_or_printed_is_told_of() -> None:
    printed = {
        field.name
        for kind in (Inspection, InspectedFile, InspectedSubject, InspectedGroup, Holder, HeldSpace)
        for field in dataclasses.fields(kind)
    }
    assert all(f"`{name}`" in PAGE for name in printed | set(READ_NAMES))


def test_every_option_of_a_publish_is_read() -> None:
    assert READERS.keys() == PublishOptions.__annotations__.keys()


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_a_code(name: str) -> None:
    kind = getattr(errors, name)
    code = code_of(kind("x"))
    assert code not in (Exit.DONE, Exit.FOUND)
    assert any(issubclass(kind, kinds) for kinds, _ in KINDS)


def test_codes_of_errors() -> None:
    found = {name: code_of(getattr(errors, name)("x")) for name in errors.__all__}
    assert found["TooLarge"] is found["WrongType"] is Exit.USAGE
    assert found["DamagedPayload"] is found["MissingFile"] is Exit.DAMAGED
    assert found["DiskFull"] is Exit.FULL
    assert found["PermissionDenied"] is found["Poisoned"] is Exit.STORE
    assert found["Locked"] is found["Busy"] is found["Stopping"] is Exit.BUSY
    assert found["Unreachable"] is found["TimedOut"] is found["ProtocolError"] is Exit.NO_SERVER
    assert found["NotPrimary"] is Exit.NO_SERVER
    assert found["NotEnoughCopies"] is Exit.BUSY
    assert code_of(errors.NotEnoughCopies("x", maybe_stored=True)) is Exit.AMBIGUOUS
    assert (found["Unauthorized"], found["AmbiguousError"]) == (Exit.UNAUTHORIZED, Exit.AMBIGUOUS)
    assert not re.search(r"Traceback", PAGE)
