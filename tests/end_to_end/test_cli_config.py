"""config: what is configured and where it comes from, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from commanding import command, refused
from delaymq.cli.input.settings import KEYS


def test_each_value_is_shown_with_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text('[store]\npath = "./data"\ndurability = "disk"\n')
    ended = command("config", "check", file, "--set", "store.durability=os", DELAYMQ_CONSUME__GROUP="billing")
    assert ended.returncode == 0, ended.stderr
    head, *rows = ended.stdout.splitlines()
    assert head.split() == ["key", "value", "from"]
    found = {row.split()[0]: row.split(None, 2)[1:] for row in rows}
    assert found["store.path"] == ["./data", str(file)]
    assert found["store.durability"] == ["os", "--set store.durability"]
    assert found["consume.group"] == ["billing", "the variable DELAYMQ_CONSUME__GROUP"]


def test_nothing_configured_is_said() -> None:
    assert command("config", "check").stdout == "nothing is configured\n"
    assert json.loads(command("config", "check", "--json").stdout) == {}


def test_two_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text("")
    assert "name two files; give one" in refused(2, "config", "check", file, "--config", file)


def test_all_keys_are_listed() -> None:
    head, *rows = command("config", "keys").stdout.splitlines()
    assert head.split() == ["key", "variable", "expected", "meaning", "default"]
    assert [row.split()[0] for row in rows] == [key.name for key in KEYS]
    listed = [json.loads(line) for line in command("config", "keys", "--json").stdout.splitlines()]
    assert [one["key"] for one in listed] == [key.name for key in KEYS]
    assert all(set(one) == {"key", "variable", "expected", "meaning"} for one in listed)


def test_settings_of_the_store_are_used(tmp_path: Path) -> None:
    where = ("--store", tmp_path / "store")
    published = command(
        "publish", "a", "body", *where, "--set", "store.delay_days_max=1", "--set", "store.keep_finished_hours=0.5"
    )
    assert published.returncode == 0, published.stderr
    line = refused(2, "publish", "a", "body", "--delay", "2d", *where, "--set", "store.delay_days_max=1")
    assert "expected at most 1d ahead, found " in line
    for setting in ("store.keep_finished_hours=1e300", "store.keep_finished_hours_of=a=1e300"):
        assert "are too many" in refused(2, "publish", "a", "b", *where, "--set", setting)
    kept = command("publish", "a", "b", *where, "--set", "store.keep_finished_hours_of=a=0.5, noise=0")
    assert kept.returncode == 0, kept.stderr
    line = refused(2, "publish", "a", "b", *where, "--set", "store.keep_finished_hours_of=no/name=1")
    assert "keep_finished_of: " in line
