"""Doctored histories of keys, of ids that are told by, and of what recurs; their good twins pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.test_doctored import Story, story

SECOND = 1_000


def keyed(one: Story, name: str, if_exists: str = "replace", result: str = "acknowledged", **fields: Any) -> Story:
    """A publish under the one key, due a minute later unless said."""
    due = {} if "delay_ms" in fields else {"delay_ms": 60_000}
    sequence = {"sequence": fields.pop("sequence")} if "sequence" in fields else {}
    one.publish(name, "", key="k", if_exists=if_exists, **due, **fields)
    return one.add("published", id=name, result=result, **sequence) if result else one


def come(one: Story, name: str) -> Story:
    """It is delivered once it is due."""
    one.at_ms += 60_000
    return one.deliver(name).acknowledge(name)


def resurrected_under_its_key() -> Story:
    return come(come(keyed(keyed(story(), "old"), "new"), "old"), "new")


def resurrected_though_nobody_knew_whether_it_was_stored() -> Story:
    one = keyed(keyed(keyed(story(), "old"), "perhaps", result="ambiguous"), "new")
    return come(come(one, "perhaps"), "new")


def lost_with_its_key() -> Story:
    return keyed(keyed(story(), "old"), "new").killed()


def doubled_under_its_key() -> Story:
    return come(come(keyed(keyed(story(), "old"), "new", "keep"), "old"), "new")


def kept_for_what_had_come() -> Story:
    one = come(keyed(story(), "old", sequence=4), "old")
    return keyed(one, "new", "keep", "kept", sequence=4)


def kept_for_what_nobody_published() -> Story:
    return keyed(story(), "new", "error", "kept", sequence=4)


def kept_and_delivered() -> Story:
    one = keyed(keyed(story(), "old", sequence=4), "new", "keep", "kept", sequence=4)
    return come(come(one, "old"), "new")


def told(one: Story, name: str, sequence: int | None = None, result: str = "acknowledged") -> Story:
    one.publish(name, "", deduplicate=True)
    return one.add("published", id=name, result=result, **({} if sequence is None else {"sequence": sequence}))


def doubled_under_its_id() -> Story:
    return told(told(story(), "m", 4), "m", 5).deliver("m").acknowledge("m")


def delivered_twice_under_its_id() -> Story:
    one = told(told(story(), "m", result="ambiguous").killed(), "m", 4).deliver("m", consumer="c2")
    return one.again("m", consumer="c2").acknowledge("m")


def delivered_again_when_it_was_finished() -> Story:
    one = told(story(), "m", 4).deliver("m").acknowledge("m")
    return told(one, "m", 4).again("m").acknowledge("m")


def series(one: Story) -> tuple[Story, int]:
    """One that recurs each second, and when it is due next."""
    next_ms = (one.at_ms // SECOND + 1) * SECOND
    one.add("series", id="r", subject="s", digest="of r", every_ms=SECOND)
    return one.add("series_made", id="r", result="acknowledged", next_ms=next_ms), next_ms


def occur(one: Story, due_ms: int) -> Story:
    one.at_ms = max(one.at_ms, due_ms)
    name = f"r@{due_ms}"
    return one.deliver(name, digest="of r").acknowledge(name)


def ended(one: Story, next_ms: int, result: str = "done") -> Story:
    return one.add("series_end", id="r", next_ms=next_ms).add("series_ended", id="r", result=result)


def passed_over() -> Story:
    one, next_ms = series(story())
    return ended(occur(occur(one, next_ms), next_ms + 2 * SECOND), next_ms + 3 * SECOND)


def gone_after_a_kill() -> Story:
    one, next_ms = series(story())
    return occur(one, next_ms).killed()


def gone_when_it_was_ended() -> Story:
    one, next_ms = series(story())
    return ended(occur(one, next_ms), next_ms + SECOND, "not_found")


def two_of_one_time() -> Story:
    one, next_ms = series(story())
    occur(one, next_ms).again(f"r@{next_ms}", digest="of r", consumer="c2").acknowledge(f"r@{next_ms}")
    one.lines[-3]["epoch"] = 1
    return ended(one, next_ms + SECOND)


def beside_its_grid() -> Story:
    one, next_ms = series(story())
    return ended(occur(occur(one, next_ms), next_ms + 7), next_ms + SECOND)


def goes_on_behind_its_end() -> Story:
    one, next_ms = series(story())
    one = ended(occur(one, next_ms), next_ms + SECOND)
    return occur(one, next_ms + SECOND)


def early_occurrence() -> Story:
    one, next_ms = series(story())
    one.deliver(f"r@{next_ms}", digest="of r").acknowledge(f"r@{next_ms}")
    return ended(one, next_ms + SECOND)


DOCTORED = [
    ("resurrected", resurrected_under_its_key),
    ("resurrected", resurrected_though_nobody_knew_whether_it_was_stored),
    ("lost", lost_with_its_key),
    ("doubled", doubled_under_its_key),
    ("lost", kept_for_what_had_come),
    ("phantom", kept_for_what_nobody_published),
    ("phantom", kept_and_delivered),
    ("doubled", doubled_under_its_id),
    ("unexplained", delivered_twice_under_its_id),
    ("finished_again", delivered_again_when_it_was_finished),
    ("lost", passed_over),
    ("lost", gone_after_a_kill),
    ("lost", gone_when_it_was_ended),
    ("finished_again", two_of_one_time),
    ("phantom", beside_its_grid),
    ("resurrected", goes_on_behind_its_end),
    ("early", early_occurrence),
]


@pytest.mark.parametrize(("name", "told"), DOCTORED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_wrong_is_named(name: str, told: Any, tmp_path: Path) -> None:
    verdict = told().judged(tmp_path)
    assert verdict.kind == "broken", verdict
    assert verdict.findings.counts[name] >= 1, verdict.findings.counts
    others = {found for found, count in verdict.findings.counts.items() if count} - {name}
    assert others <= {"unexplained"}, verdict.findings.counts


def test_all_that_may_happen_is_clean(tmp_path: Path) -> None:
    one = keyed(keyed(story(), "replaced", sequence=1), "holder", sequence=2)
    keyed(one, "not stored", "keep", "kept", sequence=2)
    keyed(one, "refused", "error", "kept", sequence=2)
    keyed(one, "full", "replace", "refused")
    keyed(one, "perhaps", result="ambiguous").killed()
    keyed(one, "after all", sequence=5)
    come(one, "after all")
    keyed(one, "free again", "keep", sequence=6)
    come(one, "free again")
    told(told(told(one, "m", result="ambiguous"), "m", 7), "m", 7).deliver("m").acknowledge("m")
    told(one, "m", 7)
    one, next_ms = series(one)
    for place in range(3):
        one.killed()
        occur(one, next_ms + place * SECOND)
    ended(one, next_ms + 3 * SECOND)
    verdict = one.judged(tmp_path)
    assert verdict.kind == "clean", verdict
    assert verdict.figures["published"]["refused"] == 1
