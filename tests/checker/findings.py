"""What is wrong, counted by its name, with the first few examples of each."""

from __future__ import annotations

EXAMPLES_MAX = 5

NAMES = {
    "lost": "answered as stored, and a group never had it",
    "stuck": "handed over, never acknowledged, and it never came again",
    "doubled": "stored beside a pending message of its key, or twice under its id",
    "torn": "one ambiguous publish of which only a part came",
    "early": "handed over before it was due",
    "phantom": "never published there, or refused and handed over all the same",
    "corrupt": "other bytes than those that were published",
    "resurrected": "handed over although its cancel was answered as done",
    "finished_again": "handed over after its acknowledgement was answered",
    "unmarked": "handed over again and not marked",
    "order": "first deliveries of a subject to one consumer that went back",
    "unexplained": "handed over again without a cause",
    "over_cap": "more came again after a stop than was in flight",
}


class Findings:
    """Counts and examples."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(NAMES, 0)
        self.examples: dict[str, list[str]] = {}

    def add(self, name: str, example: str, count: int = 1) -> None:
        self.counts[name] += count
        kept = self.examples.setdefault(name, [])
        if len(kept) < EXAMPLES_MAX:
            kept.append(example)

    @property
    def is_clean(self) -> bool:
        return not any(self.counts.values())
