"""The ledger finds what a history of the demo breaks, and nothing in a right one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unit.demo_histories import DOCTORED, IN_FLIGHT_MAX, MESSAGES, STARTED_US, History


def test_a_right_history_breaks_nothing() -> None:
    history = History()
    history.right()
    verdict = history.ledger.verdict()
    assert verdict.broken == []
    assert (verdict.published, verdict.cancelled, verdict.delivered) == (MESSAGES, 1, MESSAGES - 1)
    assert (verdict.lost, verdict.early, verdict.duplicated, verdict.resent) == (0, 0, 9, 5)
    assert verdict.duplicates_allowed == 2 * IN_FLIGHT_MAX + 5
    assert history.ledger.complete
    kill = history.ledger.kills[0]
    assert (kill.publishes, kill.messages, kill.unacknowledged) == (1, 5, 8)


@pytest.mark.parametrize(("doctor", "words"), DOCTORED)
def test_a_doctored_history_is_found(doctor: Callable[[History], None], words: str) -> None:
    history = History()
    history.right()
    doctor(history)
    assert any(words in line for line in history.ledger.verdict().broken), history.ledger.verdict().broken


def test_a_kill_forgets_what_was_held_and_names_what_must_be_sent_again() -> None:
    history = History()
    history.ledger.begun([0, 1], STARTED_US)
    assert history.ledger.publishes_under_way == 1
    assert not history.ledger.complete
    history.ledger.killed()
    assert history.ledger.unacknowledged == 0
    assert history.ledger.take_unanswered() == [0, 1]
    assert history.ledger.next_fresh == 2


def test_a_cancel_whose_answer_was_lost_is_asked_again() -> None:
    history = History()
    history.publish([0])
    history.ledger.receipts_known([(0, "dmq1-a")])
    history.ledger.killed()
    assert history.ledger.cancels_wanted() == [(0, "dmq1-a")]
    history.ledger.cancel_answered([(0, "already_dispatched")])
    assert history.ledger.cancels_wanted() == []


def test_what_was_taken_up_by_a_child_that_died_before_saying_so_is_sent_again() -> None:
    history = History()
    history.ledger.begun([2, 3], STARTED_US)
    history.ledger.killed()
    assert history.ledger.take_unanswered() == [0, 1, 2, 3]


def test_what_comes_before_all_are_back_had_waited_for_the_restart() -> None:
    history = History()
    history.publish([0, 1, 2])
    history.deliver(0)
    history.ledger.killed()
    history.deliver(1, late_us=700_000)
    assert (len(history.ledger.lateness_ms), len(history.ledger.lateness_after_restart_ms)) == (1, 1)
    history.ledger.opened(STARTED_US)
    history.deliver(2)
    assert (len(history.ledger.lateness_ms), len(history.ledger.lateness_after_restart_ms)) == (2, 1)
