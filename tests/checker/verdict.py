"""The verdict on a whole ledger: set algebra over what its history left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checker.findings import Findings
from checker.history import History
from checker.ledger import UnfitError, read
from checker.message import Message

CLEAN, BROKEN, UNFIT = "clean", "broken", "unfit"
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@dataclass
class Verdict:
    """What was found in one ledger."""

    ledger: str
    kind: str
    why: str = ""
    findings: Findings = field(default_factory=Findings)
    figures: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        found = {"findings": self.findings.counts, "examples": self.findings.examples}
        why = {"why": self.why} if self.why else {}
        return {"ledger": self.ledger, "verdict": self.kind, **why, **found, **self.figures}


def judge(path: Path, clocks_ms: int = 0) -> Verdict:
    """Reads a ledger to its end and judges it. `clocks_ms`: by how much the clocks of both sides may differ."""
    history = History(clocks_ms)
    try:
        for number, line in read(path):
            history.take(number, line)
        _saw_something(history)
    except UnfitError as error:
        return Verdict(str(path), UNFIT, str(error), history.findings)
    for name, series in history.series.items():
        series.judge(history.findings, name)
    for name, message in history.messages.items():
        _whole(history, name, message)
    _batches(history)
    _caps(history)
    kind = CLEAN if history.findings.is_clean else BROKEN
    return Verdict(str(path), kind, "", history.findings, _figures(history))


def _saw_something(history: History) -> None:
    """A run that tried nothing cannot pass."""
    if not history.counts["publish acknowledged"]:
        raise UnfitError("no publish was acknowledged: the run saw nothing")
    if not history.counts["delivered"]:
        raise UnfitError("nothing was delivered: the run saw nothing")
    for name, message in history.messages.items():
        if message.is_acknowledged and not history.groups.get(message.subject):
            raise UnfitError(f"{name!r} was acknowledged, and its subject {message.subject!r} has no group")


def _whole(history: History, name: str, message: Message) -> None:
    """Judges one message once all is over."""
    findings, deliveries = history.findings, sum(share.deliveries for share in message.shares.values())
    if message.cancelled and message.copies == 1 and deliveries:
        findings.add("resurrected", f"{name!r} was cancelled, and came {deliveries} times")
    if not message.copies and deliveries:
        findings.add("phantom", f"{name!r} was refused, and came {deliveries} times")
    if not message.is_owed:
        return
    for group, since in history.groups[message.subject].items():
        if since > message.line:
            continue
        share = message.shares.get(group)
        if share is not None and share.is_dead:
            continue
        if share is None or not share.deliveries:
            findings.add("lost", f"{name!r} was acknowledged, and group {group!r} never had it")
        elif not share.acknowledges and group in history.settling:
            findings.add("stuck", f"{name!r} came to group {group!r}, was never acknowledged and never came again")


def _batches(history: History) -> None:
    """What was one publish is there as a whole or not at all."""
    for batch, names in history.batches.items():
        members = [history.messages[name] for name in names]
        if any(member.attempts > 1 or not member.is_ambiguous for member in members):
            continue
        judged = [member for member in members if not member.doubtful_cancels and not member.cancel_open]
        shown = sum(member.has_shown for member in judged)
        if 0 < shown < len(judged):
            history.findings.add("torn", f"of the ambiguous batch {batch!r} came {shown} of {len(judged)}")


def _caps(history: History) -> None:
    """What came again after a stop is at most what was in flight at it."""
    for place, (count, cap) in enumerate(zip(history.stop_duplicates, history.stop_caps, strict=True)):
        if count > cap:
            cause = history.stop_causes[place]
            history.findings.add(
                "over_cap", f"{count} came again after stop {place + 1} ({cause}), {cap} may", count - cap
            )


def _figures(history: History) -> dict[str, Any]:
    counts, run = history.counts, history.run
    ambiguous = sum(message.is_ambiguous for message in history.messages.values())
    twice = sum(max(message.copies - 1, 0) for message in history.messages.values())
    acknowledged = sum(message.is_acknowledged for message in history.messages.values())
    return {
        "harness": run["harness"],
        "seed": run["seed"],
        "messages": len(history.messages),
        "published": {"acknowledged": acknowledged, "refused": counts["publish refused"], "ambiguous": ambiguous},
        "delivered": counts["delivered"],
        "finished": counts["acknowledged"],
        "cancelled": {name: counts[f"cancel {name}"] for name in ("done", "already_dispatched", "not_found")},
        "moved": {name: counts[f"move {name}"] for name in ("done", "already_dispatched", "not_found")},
        "dead": counts["dead"],
        "stops": dict(Counter(history.stop_causes)),
        "starts": counts["start"],
        "duplicates": {
            **{name: history.duplicates[name] for name in ("crash", "lease", "returned", "ambiguous_publish", "none")},
            "cap": sum(history.stop_caps) + twice,
            "largest_after_a_stop": max(history.stop_duplicates, default=0),
        },
        "lateness_ms": _lateness(history),
    }


def _lateness(history: History) -> dict[str, int]:
    ordered = sorted(history.late_ms)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {**{name: ordered[int(last * part)] for name, part in PERCENTILES.items()}, "max": ordered[last]}
