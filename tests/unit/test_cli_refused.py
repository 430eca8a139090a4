"""One table: whatever is wrong on the command line of any verb is one line and the exit code that docs/cli.md names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import delaymq
from delaymq.cli import VERBS, main
from places import ON_A_STORE, ON_FILES

CLUSTER = {
    "cluster create": (),
    "cluster status": (),
    "cluster switchover": ("0" * 32,),
    "cluster confirm": ("1",),
    "cluster min-copies": ("2",),
    "cluster add": ("127.0.0.1:1",),
    "cluster remove": ("0" * 32,),
    "cluster promote": ("0" * 32,),
}
CONFIGURED = {**ON_A_STORE, "serve": (), "config check": (), **CLUSTER}
ALONE = {"token", "config keys", "completion", "bench", "demo"}

TIMES = (
    ("publish", "--delay"),
    ("move", "--delay"),
    ("recur add", "--every"),
    ("consume", "--timeout"),
    ("consume", "--idle"),
    ("inspect", "--every"),
    ("demo", "--within"),
)
COUNTS = (
    ("publish", "--level"),
    ("consume", "--count"),
    ("consume", "--in-flight-max"),
    ("pending", "--limit"),
    ("dead list", "--limit"),
    ("dead redrive", "--limit"),
    ("simulate", "--recurring-max"),
    ("demo", "--messages"),
    ("demo", "--subjects"),
    ("demo", "--kills"),
    ("demo", "--seed"),
)

Refused = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with delaymq.open(path) as store:
        store.subscribe("a", group="g").close()
    return path


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    for name in [name for name in os.environ if name.startswith("DELAYMQ_")]:
        monkeypatch.delenv(name)

    def run(code: int, verb: str, *arguments: str | Path) -> str:
        """Runs a verb with what it needs and these, and returns its one line."""
        try:
            found = main([*verb.split(), *CONFIGURED.get(verb, ()), *map(str, arguments)])
        except SystemExit as ended:
            found = int(str(ended.code))
        said = capfd.readouterr()
        assert found == code, said.err
        assert said.out == ""
        [line] = said.err.splitlines()
        assert line.startswith("delaymq: ")
        return line

    return run


def test_every_verb_stands_in_the_table() -> None:
    known = {name.split()[0] for name in (*CONFIGURED, *ALONE)}
    assert known == set(VERBS)


@pytest.mark.parametrize("verb", ON_A_STORE)
def test_a_store_and_a_server_are_two_places(verb: str, folder: Path, refused: Refused) -> None:
    assert "not allowed with argument --store" in refused(2, verb, "--store", folder, "--server", "delaymq://x")
    assert "no store: give --store DIR" in refused(2, verb)
    if verb in ON_FILES:
        assert f"--server: {verb} reads the files of a store: give --store DIR" in refused(2, verb, "--server", "x")
        assert "unrecognized arguments: --token-file" in refused(2, verb, "--store", folder, "--token-file", "x")
        return
    assert "expected delaymq://host:port, found 'x'" in refused(2, verb, "--server", "x")
    assert "asks for no token" in refused(2, verb, "--store", folder, "--token-file", "x")
    two = ("--set", f"store.path={folder}", "--set", "client.server=delaymq://x")
    assert "say --store DIR or --server URL" in refused(2, verb, *two)


@pytest.mark.parametrize("verb", CONFIGURED)
def test_a_file_of_settings_that_cannot_be_read(
    verb: str, folder: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--store", folder) if verb in ON_A_STORE else ()
    files = {
        "none.toml": (None, "cannot be read: No such file"),
        "text.toml": (b"dear reader", "is not TOML"),
        "bytes.toml": (b"\xff\xfe\x00", "is not TOML"),
        "deep.toml": (b"a = " + b"[" * 50_000, "is not TOML"),
        "long.toml": (b"a = " + b"9" * 5000, "is not TOML"),
        "key.toml": (b"[store]\npaht = 'x'\n", "unknown key store.paht; the nearest is store.path"),
        "kind.toml": (b"store.durability = 7\n", 'expected "disk" or "os", found 7'),
    }
    for name, (content, words) in files.items():
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        assert words in refused(2, verb, *place, "--config", file)
        monkeypatch.setenv("DELAYMQ_CONFIG", str(file))
        assert words in refused(2, verb, *place)
        monkeypatch.delenv("DELAYMQ_CONFIG")
    assert "cannot be read: Is a directory" in refused(2, verb, *place, "--config", tmp_path)


@pytest.mark.parametrize("verb", CONFIGURED)
def test_settings_that_nobody_knows(verb: str, folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("--store", folder) if verb in ON_A_STORE else ()
    assert "the nearest is store.path" in refused(2, verb, *place, "--set", "store.paht=x")
    assert "expected key=value" in refused(2, verb, *place, "--set", "store.path")
    assert "store.segment_bytes: expected" in refused(2, verb, *place, "--set", "store.segment_bytes=1.5")
    assert f"unrecognized arguments: --nothing; see `delaymq {verb} --help`" in refused(2, verb, *place, "--nothing")
    monkeypatch.setenv("DELAYMQ_STORE__PAHT", "x")
    assert "the nearest is store.path" in refused(2, verb, *place)


@pytest.mark.parametrize("verb", [verb for verb in ON_A_STORE if verb != "publish"])
def test_a_folder_that_is_no_store(verb: str, tmp_path: Path, refused: Refused) -> None:
    assert "No such file" in refused(3, verb, "--store", tmp_path / "nowhere")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    letter = elsewhere / "letter.txt"
    letter.write_text("dear reader")
    assert "not a delaymq store" in refused(3, verb, "--store", elsewhere)
    refused(3, verb, "--store", letter)


@pytest.mark.parametrize("verb", CONFIGURED)
def test_a_setting_that_names_no_folder(verb: str, tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('store.path = "a\\u0000b"\n')
    assert "store.path: expected a path, found 'a\\x00b'" in refused(2, verb, "--config", file)


@pytest.mark.parametrize(("verb", "option"), TIMES)
def test_a_time_without_its_unit(verb: str, option: str, refused: Refused) -> None:
    assert f"argument {option}: 30 has no unit: write 30s" in refused(2, verb, option, "30")
    assert "expected a duration with units" in refused(2, verb, option, "30 parsecs")
    assert "longer than a duration can be" in refused(2, verb, option, "9" * 20 + "d")


@pytest.mark.parametrize(("verb", "option"), COUNTS)
def test_a_count_that_is_none(verb: str, option: str, refused: Refused) -> None:
    for text in ("0", "-1", "1.5", "many", ""):
        assert f"argument {option}: expected" in refused(2, verb, f"{option}={text}")


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [
        ("publish", "--level", "9" * 30),
        ("publish", "--delay", "999999999d"),
        ("publish", "--at", "0001-01-01T00:00:00+23:59"),
        ("publish", "--set", "store.segment_bytes=" + "9" * 30),
        ("publish", "--set", "store.segment_bytes=1"),
        ("publish", "--set", "store.delay_days_max=1e300"),
        ("consume", "--in-flight-max", "9" * 30),
        ("consume", "--set", "consume.in_flight_max=" + "9" * 30),
    ],
)
def test_a_value_that_is_too_much(verb: str, option: str, value: str, folder: Path, refused: Refused) -> None:
    refused(2, verb, option, value, "--store", folder.with_name("new") if verb == "publish" else folder)


def test_times_are_named_as_they_were_typed_and_told_in_utc(folder: Path, refused: Refused) -> None:
    upside_down = ("--due-from", "2030-01-02T00:00:00Z", "--due-before", "2030-01-01T00:00:00Z")
    for verb in ("pending", "forecast"):
        line = refused(2, verb, "--store", folder, *upside_down)
        assert "--due-before: expected a time not before 2030-01-02T00:00:00Z, found 2030-01-01T00:00:00Z" in line
    long_ago = ("--to", "2001-01-01T00:00:00Z")
    assert "--to: expected a time after " in refused(2, "simulate", "--store", folder, *long_ago)


@pytest.mark.parametrize(
    "option", ["--due-from=2030-01-01T00:00:00Z", "--due-before=2030-01-01T00:00:00Z", "--after=x"]
)
def test_counts_of_a_part_are_not_told_as_counts_of_all(option: str, folder: Path, refused: Refused) -> None:
    name = option.partition("=")[0]
    assert f"{name} goes with a list" in refused(2, "pending", "--counts", option, "--store", folder)


def test_a_simulation_of_a_series_that_goes_on_for_decades(folder: Path, refused: Refused) -> None:
    with delaymq.open(folder) as store:
        store.recur("a", b"", name="each", every=1)
    line = refused(2, "simulate", "--store", folder, "--to", "2100-01-01T00:00:00Z")
    assert "--to: series would send more than 1,000,000 messages" in line
    assert "--recurring-max" in line


@pytest.mark.parametrize("verb", ["cancel", "look-up", "move --delay 1h"])
def test_one_of_several_receipts_that_another_store_gave_out_is_named(
    verb: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with delaymq.open(folder) as store, delaymq.open(tmp_path / "another") as another:
        receipts = [str(one.publish("a", b"", delay=3600)) for one in (store, another, store)]
    place = ("--store", str(folder))
    assert main([*verb.split(), *receipts, *place]) == 2
    assert "delaymq: receipt 2: receipt: expected a receipt that this store gave out" in capfd.readouterr().err
    assert main([*verb.split(), receipts[1], *place]) == 2
    assert "delaymq: receipt: expected a receipt" in capfd.readouterr().err


def test_a_command_by_key_that_comes_again_under_its_id_prints_the_same(
    folder: Path, refused: Refused, capfd: pytest.CaptureFixture[str]
) -> None:
    with delaymq.open(folder) as store:
        store.publish("a", b"", delay=3600, key="k")
    move = ["move", "--subject", "a", "--key", "k", "--delay", "2h", "--id", "one", "--store", str(folder)]
    cancel = ["cancel", "--subject", "a", "--key", "k", "--id", "one", "--store", str(folder)]
    for command in (move, cancel):
        said = []
        for _ in range(2):
            assert main(command) == 0
            said.append(capfd.readouterr().out)
        assert said[0] == said[1]
        assert said[0].startswith("done  ")
    assert "--id goes with --key" in refused(2, "cancel", "--id", "one", "--store", folder)
