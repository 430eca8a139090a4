from __future__ import annotations

from delaymq.demo.plan import Plan


def test_a_plan_is_the_same_for_parent_and_child() -> None:
    one, other = Plan(2_000, 50, 10_000, 7), Plan(2_000, 50, 10_000, 7)
    assert (one.delays_ms, one.sizes, one.cancelled) == (other.delays_ms, other.sizes, other.cancelled)
    assert Plan(2_000, 50, 10_000, 8).delays_ms != one.delays_ms


def test_a_plan_holds_what_the_demo_promises_to_publish() -> None:
    plan = Plan(50_000, 50, 10_000, 1)
    assert min(plan.sizes) == 20
    assert 3_900 < max(plan.sizes) <= 4_096
    assert min(plan.delays_ms) == 0
    assert 9_900 < max(plan.delays_ms) <= 10_000
    assert len({plan.subject(number) for number in range(plan.messages)}) == 50
    assert 0.045 < sum(plan.cancelled) / plan.messages < 0.055
    for number in range(0, plan.messages, 997):
        body = plan.body(number)
        assert len(body) == plan.sizes[number]
        assert plan.number_in(body) == number
    assert plan.number_in(b"short") is None
    assert plan.number_in(b"\xff" * 20) is None
