"""publish, consume and cancel as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from commanding import arguments_of, command, environment, on_terminal, refused
from places import PLACES, Place, place_over


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(params=PLACES)
def place(folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_over(folder, request.param) as found:
        yield found


def published(place: Place, *arguments: str, given: bytes = b"") -> list[str]:
    ended = command("publish", *arguments, *place, given=given)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def consumed(place: Place, *arguments: str, code: int = 0) -> list[str]:
    ended = command("consume", *arguments, *place)
    assert ended.returncode == code, ended.stderr
    return ended.stdout.splitlines()


def came(place: Place, count: int, *arguments: str) -> list[str]:
    """So many of a are waited for, however slow the machine is: a reader that gets no turn for an idle time prints
    nothing. After them there is no more.
    """
    group = ("a", "--group", "g")
    lines = consumed(place, *group, "--count", str(count), "--timeout", "30s", *arguments)
    assert consumed(place, *group, "--until-empty") == []
    return lines


def test_a_message_goes_in_and_comes_out(place: Place) -> None:
    [receipt] = published(place, "a", "hello")
    assert str(delaymq.Receipt.parse(receipt)) == receipt
    # The idle time is long so that a slow machine shows what is there within it.
    assert consumed(place, "a", "--group", "g", "--until-empty", "--idle", "5s") == ["hello"]
    assert consumed(place, "a", "--group", "g", "--until-empty") == []


def test_what_is_not_due_waits(place: Place) -> None:
    [line] = published(place, "a", "later", "--delay", "1h30m", "--json")
    said = json.loads(line)
    assert list(said) == ["receipt", "subject", "due", "sequence"]
    assert said["subject"] == "a"
    assert consumed(place, "a", "--group", "g", "--until-empty", "--idle", "100ms") == []
    published(place, "a", "soon", "--delay", "300ms")
    assert consumed(place, "a", "--group", "g", "--count", "1", "--timeout", "30s") == ["soon"]


def test_several_subjects_or_a_prefix_are_one_stream(place: Place) -> None:
    for subject in ("order.made", "order.paid", "refund"):
        published(place, subject, subject)
    two_within = ("--count", "2", "--timeout", "30s")
    two = consumed(place, "refund", "order.made", "--group", "g", *two_within)
    assert sorted(two) == ["order.made", "refund"]
    lines = consumed(place, "order.*", "--group", "h", "--start", "earliest", *two_within, "--jsonl")
    assert sorted(json.loads(line)["subject"] for line in lines) == ["order.made", "order.paid"]
    assert consumed(place, "order.*", "refund", "--group", "g", "--until-empty", code=2) == []
    assert "subject" in refused(2, "consume", "a", "a", "--group", "g", "--until-empty", *place)


def test_what_is_spread_is_told_in_its_receipt(place: Place) -> None:
    arguments = ("a", "x", "--at", "2030-01-01T00:00:00Z", "--jitter", "30s", "--json")
    dues = {json.loads(line)["due"] for _ in range(3) for line in published(place, *arguments)}
    assert len(dues) > 1
    assert all("2030-01-01T00:00:00" <= due < "2030-01-01T00:00:31" for due in dues)
    line = json.dumps({"body": "y", "at": "2030-01-01T00:00:00Z", "jitter": "30s"}).encode()
    [receipt] = published(place, "a", "--jsonl", "-", given=line)
    assert 0 <= (delaymq.Receipt.parse(receipt).due.timestamp() - 1_893_456_000) <= 30
    assert "--jitter" in refused(2, "publish", "a", "x", "--jitter", "30", *place)


EXPIRED = ("--at", "2020-01-01T00:00:00Z", "--expires", "1s")


def test_what_is_of_no_use_any_more_is_not_printed_and_may_be_a_dead_letter(place: Place) -> None:
    published(place, "a", "dropped", *EXPIRED)
    published(place, "a", "kept", *EXPIRED, "--on-expiry", "dead_letter")
    line = {"body": "read", "at": "2020-01-01T00:00:00Z", "expires": "2020-01-01T00:00:01Z", "on_expiry": "drop"}
    published(place, "a", "--jsonl", "-", given=json.dumps(line).encode())
    published(place, "a", "of use", "--expires", "2100-01-01T00:00:00Z")
    assert came(place, 1) == ["of use"]
    told = command("dead", "list", "a", "g", "--json", *place).stdout.splitlines()
    assert [(one["body"], one["reason"]) for one in map(json.loads, told)] == [("kept", "expired")]
    if "--server" in place:  # a status counts since the store was opened
        assert "expired: 3 messages" in command("status", *place).stdout


def test_an_expiry_that_cannot_be_is_refused(place: Place) -> None:
    assert "--expires" in refused(2, "publish", "a", "x", "--delay", "1h", "--expires", "0s", *place)
    assert "--expires" in refused(2, "publish", "a", "x", "--expires", "30", *place)
    assert "--expires" in refused(2, "publish", "a", "x", "--expires", "2030-01-01T00:00:00", *place)
    assert "--on-expiry" in refused(2, "publish", "a", "x", "--on-expiry", "drop", *place)
    assert "--on-expiry" in refused(2, "publish", "a", "x", "--expires", "1h", "--on-expiry", "keep", *place)


def test_a_body_from_standard_input_is_kept_byte_for_byte(place: Place) -> None:
    published(place, "a", "-", given=b"\x00\xff\n")
    [line] = came(place, 1, "--jsonl")
    said = json.loads(line)
    assert said["body_base64"] == "AP8K"
    assert (said["attempt"], said["redelivered"]) == (1, False)


def test_many_lines_go_in_and_come_out(place: Place) -> None:
    lines = [json.dumps({"body": f"b{number}", "delay": "0s"}) for number in range(2500)]
    receipts = published(place, "a", "--jsonl", "-", given="\n".join(lines).encode())
    assert len(set(receipts)) == 2500
    out = came(place, 2500, "--jsonl")
    assert [json.loads(line)["body"] for line in out] == [f"b{number}" for number in range(2500)]


def test_tags_attributes_and_levels_go_along(place: Place) -> None:
    arguments = ("a", "x", "--tag", "red", "--tag", "blue", "--attribute", "shop=7", "--message-id", "order-1")
    [receipt] = published(place, *arguments)
    line = {
        "subject": "a",
        "body": "y",
        "level": 1,
        "tags": ["green"],
        "attributes": {"k": "v"},
        "message_id": "order-2",
    }
    published(place, "--jsonl", "-", given=json.dumps(line).encode())
    out = [json.loads(one) for one in consumed(place, "a", "--group", "g", "--count", "2", "--jsonl")]
    assert [one["message_id"] for one in out] == ["order-1", "order-2"]
    assert (out[0]["tags"], out[0]["attributes"], out[0]["receipt"]) == (["red", "blue"], {"shop": "7"}, receipt)
    assert (out[1]["tags"], out[1]["attributes"]) == (["green"], {"k": "v"})
    assert "level: expected" in refused(2, "publish", "a", "x", "--level", "19", *place)


def test_lines_are_published_as_they_arrive(place: Place) -> None:
    arguments = arguments_of("publish", "a", "--jsonl", "-", *place)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(b'{"body": "x"}\n')
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"dmq1-")
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_refused_line_stops_and_those_before_it_are_stored(place: Place) -> None:
    given = b'{"subject": "a", "body": "1"}\n\n{"subject": "a b", "body": "2"}\n{"subject": "a", "body": "3"}\n'
    ended = command("publish", "--jsonl", "-", *place, given=given)
    assert ended.returncode == 2
    assert "delaymq: line 3: subject: expected" in ended.stderr
    assert len(ended.stdout.splitlines()) == 1
    assert came(place, 1) == ["1"]
    ended = command("publish", "--jsonl", "-", *place, given=b'{"subject": "a", "body": "4"}\nword\n')
    assert ended.returncode == 2
    assert ended.stderr.startswith("delaymq: line 2: is not JSON")
    assert came(place, 1) == ["4"]


def test_looking_takes_nothing(place: Place) -> None:
    published(place, "a", "x")
    published(place, "a", "y")
    arguments = ("a", "--group", "g", "--count", "2", "--timeout", "30s", "--no-ack")
    assert consumed(place, *arguments) == ["x", "y"]
    lines = [json.loads(line) for line in came(place, 2, "--jsonl")]
    assert [(line["body"], line["redelivered"]) for line in lines] == [("x", True), ("y", True)]


def test_fewer_than_were_asked_for(place: Place) -> None:
    published(place, "a", "x")
    arguments = ("a", "--group", "g", "--count", "2", "--timeout", "5s")
    assert consumed(place, *arguments, code=7) == ["x"]


def test_a_count_leaves_the_rest_untouched(place: Place) -> None:
    for body in ("1", "2", "3"):
        published(place, "a", body)
    assert consumed(place, "a", "--group", "g", "--count", "2") == ["1", "2"]
    assert came(place, 1) == ["3"]


def test_a_receipt_takes_its_message_back(place: Place) -> None:
    [late] = published(place, "a", "x", "--delay", "1h")
    [now] = published(place, "a", "y")
    ended = command("cancel", late, now, *place)
    assert ended.returncode == 7
    assert ended.stdout.splitlines() == [f"done  {late}", f"already_dispatched  {now}"]
    ended = command("cancel", "-", "--json", *place, given=f"{late}\n\n".encode())
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == {"receipt": late, "outcome": "done"}


def test_a_receipt_moves_its_message(place: Place) -> None:
    [late] = published(place, "a", "x", "--delay", "1h")
    [now] = published(place, "a", "y")
    ended = command("move", late, now, "--delay", "2h", *place)
    assert ended.returncode == 7
    [(done, moved), other] = [line.split("  ") for line in ended.stdout.splitlines()]
    assert (done, other) == ("done", ["already_dispatched", now])
    ended = command("move", "-", "--at", "2030-12-31T18:00:00Z", "--json", *place, given=f"{moved}\n\n".encode())
    assert ended.returncode == 0
    said = json.loads(ended.stdout)
    again = said.pop("new_receipt")
    assert said == {"receipt": moved, "outcome": "done", "due": "2030-12-31T18:00:00+00:00"}
    ended = command("move", moved, "--delay", "0s", "--json", *place)
    assert ended.returncode == 7
    assert json.loads(ended.stdout) == {"receipt": moved, "outcome": "not_found", "new_receipt": None, "due": None}
    assert command("move", again, "--delay", "0s", *place).returncode == 0
    assert sorted(came(place, 2)) == ["x", "y"]


def test_a_key_names_what_is_pending(place: Place) -> None:
    def named(verb: str, *arguments: str) -> tuple[int, list[str]]:
        ended = command(verb, "--subject", "a", "--key", "k", *arguments, *place)
        return ended.returncode, ended.stdout.split()

    [first] = published(place, "a", "x", "--delay", "1h", "--key", "k")
    assert "the key is taken" in refused(7, "publish", "a", "y", "--delay", "1h", "--key", "k", *place)
    assert published(place, "a", "y", "--delay", "1h", "--key", "k", "--if-exists", "keep") == [first]
    assert named("look-up") == (0, ["pending", first])
    [second] = published(place, "a", "y", "--delay", "1h", "--key", "k", "--if-exists", "replace")
    code, (done, third) = named("move", "--delay", "2h")
    assert (code, done, third in {first, second}) == (0, "done", False)
    assert named("cancel") == (0, ["done", "k"])
    assert named("cancel") == (7, ["not_found", "k"])
    assert named("look-up", "--json")[0] == 7
    [late] = published(place, "a", "late", "--delay", "0s", "--key", "k")
    assert named("cancel") == (7, ["already_dispatched", "k"])
    assert named("move", "--delay", "1h") == (7, ["already_dispatched", "k"])
    assert named("look-up") == (0, ["dispatched", late])
    assert came(place, 1) == ["late"]
    line = b'{"subject": "a", "body": "z", "message_id": "m", "key": "k", "if_exists": "keep", "deduplicate": true}'
    once = [command("publish", "--jsonl", "-", *place, given=line).stdout for _ in range(2)]
    assert once[0] == once[1] != ""
    assert came(place, 1) == ["z"]


def test_many_keys_are_named_at_once_or_read_from_standard_input(place: Place) -> None:
    def asked(verb: str, *arguments: str, given: bytes = b"") -> tuple[int, list[list[str]]]:
        ended = command(verb, "--subject", "a", *arguments, *place, given=given)
        return ended.returncode, [line.split() for line in ended.stdout.splitlines()]

    receipts = [published(place, "a", "x", "--delay", "1h", "--key", key)[0] for key in "klm"]
    assert asked("look-up", "--key", "k", "--key", "-", given=b"m\n") == (
        0,
        [["pending", receipts[0]], ["pending", receipts[2]]],
    )
    code, moved = asked("move", "--key", "l", "--key", "-", "--delay", "2h", given=b"gone\n\n m \n")
    assert (code, [word for word, _ in moved]) == (7, ["done", "not_found", "done"])
    assert moved[1][1] == "gone"
    assert asked("look-up", "--key", "m") == (0, [["pending", moved[2][1]]])
    assert "line 2: key: " in refused(2, "cancel", "--subject", "a", "--key", "-", *place, given=b"k\na b\n")
    assert "key 2: key: " in refused(2, "move", "--subject", "a", "--key", "k", "--key", "", "--delay", "1s", *place)
    ended = command("cancel", "--subject", "a", "--key", "k", "--key", "gone", "--json", "--id", "one", *place)
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        {"subject": "a", "key": "k", "outcome": "done"},
        {"subject": "a", "key": "gone", "outcome": "not_found"},
    ]
    again = command("cancel", "--subject", "a", "--key", "k", "--key", "gone", "--json", "--id", "one", *place)
    assert (again.returncode, again.stdout) == (ended.returncode, ended.stdout) == (7, ended.stdout)
    assert asked("cancel", "--key", "k", "--key", "l", "--key", "m")[1] == [
        ["not_found", "k"],
        ["done", "l"],
        ["done", "m"],
    ]
    assert asked("cancel", "--key", "-") == (0, [])


def test_the_configuration_stands_in_for_options(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "delaymq.toml"
    file.write_text(f"store.path = '{folder}'\nstore.durability = 'os'\nconsume.group = 'g'\n")
    assert command("publish", "a", "x", "--config", file).returncode == 0
    ended = command("consume", "a", "--until-empty", DELAYMQ_CONFIG=str(file))
    assert (ended.returncode, ended.stdout) == (0, "x\n")
    published(("--store", str(folder)), "b", "x")
    ended = command("consume", "b", "--until-empty", "--set", "consume.group=h", DELAYMQ_STORE__PATH=str(folder))
    assert (ended.returncode, ended.stdout) == (0, "x\n")
    shown = command("config", "check", file, "--json", DELAYMQ_STORE__DURABILITY="disk")
    assert json.loads(shown.stdout)["store.durability"]["origin"] == "the variable DELAYMQ_STORE__DURABILITY"


def test_what_is_refused_is_one_line_and_a_code(folder: Path, tmp_path: Path) -> None:
    place = ("--store", folder)
    assert "30 has no unit" in refused(2, "publish", "a", "b", "--delay", "30", *place)
    assert "no time zone" in refused(2, "publish", "a", "b", "--at", "2030-01-01T00:00:00", *place)
    assert "not allowed with" in refused(
        2, "publish", "a", "b", "--at", "2030-01-01T00:00:00Z", "--delay", "1s", *place
    )
    assert "not allowed with" in refused(2, "publish", "a", "b", "--server", "x", *place)
    assert "no server answers at" in refused(8, "publish", "a", "b", "--server", "delaymq://127.0.0.1:1")
    assert "no store: give --store DIR or --server URL" in refused(2, "publish", "a", "b")
    assert "nearest is store.path" in refused(2, "publish", "a", "b", "--set", "store.paht=x", *place)
    assert "nearest is store.path" in refused(2, "publish", "a", "b", *place, DELAYMQ_STORE__PAHT="x")
    assert "cannot be read" in refused(2, "config", "check", tmp_path / "none.toml")
    assert "cannot be read" in refused(2, "publish", "--jsonl", tmp_path / "none.jsonl", *place)
    assert "each line says" in refused(2, "publish", "--jsonl", "-", "--delay", "1s", *place)
    assert "found 'a'" in refused(2, "publish", "a", "b", "--attribute", "a", *place)
    assert "expected SUBJECT and BODY (- reads it from standard input)" in refused(2, "publish", "a", *place)
    assert "no group" in refused(2, "consume", "a", *place)
    assert "receipt 1: " in refused(2, "cancel", "word", *place)
    assert "receipt 1: " in refused(2, "move", "word", "--delay", "1s", *place)
    assert "--delay" in refused(2, "move", "word", *place)
    for arguments in (("--key", "k"), ("--subject", "a"), ("word", "--subject", "a", "--key", "k"), ()):
        assert "--subject" in refused(2, "cancel", *arguments, *place)
    assert "white space" in refused(2, "look-up", "--subject", "a b", "--key", "k", *place)
    assert "--if-exists: expected a key" in refused(2, "publish", "a", "b", "--if-exists", "keep", *place)
    assert "unrecognized arguments: --nothing" in refused(2, "consume", "a", "--nothing")
    assert "invalid choice" in refused(2, "sell")
    assert "white space" in refused(2, "publish", "a b", "x", *place)
    assert "No such file" in refused(3, "consume", "a", "--group", "g", "--store", tmp_path / "nowhere")
    (tmp_path / "letter.txt").write_text("dear reader")
    assert "not a delaymq store" in refused(3, "consume", "a", "--group", "g", "--store", tmp_path)
    with delaymq.open(folder):
        assert "another process" in refused(5, "publish", "a", "b", *place)


@pytest.mark.usefixtures("uncounted_processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_wait_at_once_and_gives_back(place: Place, number: int, code: int) -> None:
    published(place, "a", "x")
    arguments = arguments_of("consume", "a", "--group", "g", "--no-ack", "--count", "2", *place)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x\n"
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == code
        assert time.monotonic() - began < 3
        assert process.stderr.read() == b""
    assert came(place, 1) == ["x"]


def test_whoever_stops_reading_is_no_error(place: Place) -> None:
    lines = [json.dumps({"body": "x" * 1000}) for _ in range(2000)]
    published(place, "a", "--jsonl", "-", given="\n".join(lines).encode())
    taking = ("a", "--group", "g", "--timeout", "30s")
    arguments = arguments_of("consume", *taking, "--count", "2000", *place)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x" * 1000 + b"\n"
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == b""
    assert len(consumed(place, *taking, "--count", "1001")) == 1001, "most were given back"


@pytest.mark.usefixtures("uncounted_processes")
def test_ctrl_c_on_a_terminal(place: Place) -> None:
    published(place, "a", "x")
    with on_terminal("consume", "a", "--group", "g", *place) as terminal:
        terminal.read_until(b"x\r\n")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert b"\x1b" not in terminal.shown
    assert b"Traceback" not in terminal.shown


def test_help_has_examples_that_name_every_verb() -> None:
    shown = command("--help").stdout
    for verb in ("publish", "consume", "cancel", "move", "status", "verify", "config", "bench", "demo"):
        assert f"\n    {verb} " in shown
        assert "examples:\n  " in command(verb, "--help").stdout
