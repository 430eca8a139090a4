"""A server that is killed under load loses nothing that it answered; the long form is `make killed-server`."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving import Delivered
from soak.killed_server import Ledger, run


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_nothing_that_was_answered_is_lost_early_or_doubled_without_bound(tmp_path: Path, durability: str) -> None:
    ledger = run(tmp_path / "store", 1.2, 3, 17, durability=durability)
    assert ledger.judge(2) == [], ledger.told()
    assert ledger.kills == 3
    assert len(ledger.finished) > 100, "it was under load"
    assert any(len(times) > 1 for times in ledger.handed.values()) or ledger.ambiguous, "it was killed at work"


def delivered(body: bytes, *, redelivered: bool = False, due_ms: int = 0) -> Delivered:
    return Delivered(0, 0, redelivered, 1, due_ms, body)


def history(*steps: str) -> list[str]:
    """What the ledger says of a history of one message."""
    ledger = Ledger()
    body = b"a message"
    for step in steps:
        match step:
            case "sent":
                ledger.sends([body], 0)
            case "sent for later":
                ledger.sends([body], 60_000)
            case "answered":
                ledger.answered([body])
            case "came":
                ledger.came(10, [delivered(body)])
            case "came again":
                ledger.came(10, [delivered(body, redelivered=True)])
            case "came early":
                ledger.came(10, [delivered(body, due_ms=11)])
            case "settled":
                ledger.settles([delivered(body)])
            case "finished":
                ledger.settles([delivered(body)])
                ledger.done([delivered(body)])
    return ledger.judge(1)


def test_the_ledger_sees_what_is_wrong() -> None:
    assert history("sent", "answered", "came", "finished") == []
    assert history("sent", "came", "came again", "finished") == [], "it was in doubt"
    assert history("sent") == [], "nobody was told that it is stored"
    assert history("sent", "answered", "came", "settled", "came again", "settled") == [], "no answer came"
    for wrong, *steps in [
        ("never came", "sent", "answered"),
        ("never came", "sent", "answered", "came"),
        ("was never sent", "came"),
        ("of the server's clock", "sent", "answered", "came early", "finished"),
        ("before its delay", "sent for later", "answered", "came", "finished"),
        ("was not marked", "sent", "answered", "came", "came", "finished"),
        ("after its acknowledgement", "sent", "answered", "came", "finished", "came again"),
        ("64 may", "sent", "came", *["came again"] * 65, "finished"),
    ]:
        found = history(*steps)
        assert len(found) == 1, found
        assert wrong in found[0]
