from __future__ import annotations

from datetime import timedelta

import pytest

from delaymq.cli.failures import UsageError
from delaymq.cli.input.json_lines import body_of, message_of


def test_a_line_says_what_its_message_is() -> None:
    message = message_of(b'{"subject": "a", "body": "\xc3\xa4", "delay": "1h30m"}', 1, None)
    assert (message.subject, message.body, message.delay) == ("a", "ä".encode(), timedelta(minutes=90))
    message = message_of(b'{"body_base64": "AAE=", "at": "2030-01-01T00:00:00Z"}', 1, "b")
    assert (message.subject, message.body) == ("b", b"\x00\x01")
    assert message.at is not None
    assert message_of(b'{"subject": "c", "body": "x"}', 1, "b").subject == "c"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 7: is not JSON"),
        (b"\xff", "line 7: is not JSON"),
        (b"[]", "line 7: expected an object, found list"),
        (b'{"body": "x"}', "line 7: no subject"),
        (b'{"subject": "a"}', "line 7: expected either body or body_base64, found none"),
        (b'{"subject": "a", "body": "x", "body_base64": ""}', "found both"),
        (b'{"subject": "a", "body": 5}', "line 7: body: expected text, found 5"),
        (b'{"subject": "a", "body": "\\ud800"}', "is not Unicode text"),
        (b'{"subject": "a", "body_base64": "x"}', "is not base64"),
        (b'{"subject": 5, "body": "x"}', "subject: expected text"),
        (b'{"subject": "a", "body": "x", "delay": 30}', "line 7: delay: 30 has no unit"),
        (b'{"subject": "a", "body": "x", "delay": "30"}', "30 has no unit"),
        (b'{"subject": "a", "body": "x", "delay": true}', "expected a duration"),
        (b'{"subject": "a", "body": "x", "at": "2030-01-01T00:00:00"}', "no time zone"),
        (b'{"subject": "a", "body": "x", "level": "1"}', "level: expected a whole number"),
        (b'{"subject": "a", "body": "x", "tags": "t"}', "tags: expected a list of text"),
        (b'{"subject": "a", "body": "x", "tags": [1]}', "tags: expected a list of text"),
        (b'{"subject": "a", "body": "x", "attributes": {"k": 1}}', "attributes: expected an object of text"),
        (b'{"subject": "a", "body": "x", "message_id": 1}', "message_id: expected text"),
        (b'{"subject": "a", "body": "x", "dealy": "1s"}', "unknown name 'dealy'"),
    ],
)
def test_what_is_wrong_in_a_line_is_named(line: bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        message_of(line, 7, None)
    assert words in str(caught.value)


def test_a_body_is_text_where_it_can_be() -> None:
    assert body_of("ä".encode()) == {"body": "ä"}
    assert body_of(b"\xff") == {"body_base64": "/w=="}
