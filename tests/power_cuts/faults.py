"""Faults that are planted on purpose: cuts that do not find them prove nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from power_cuts.cutting import Plan, Round
from power_cuts.findings import Found
from power_cuts.images import Kind

FAR_MS_MAX = 300
# A disk that takes its time: what is answered before it is synced would be lost. Among the rounds of every run.
SLOW = ("--sync-after-ms", "3", "--submitted-percent", "60")


@dataclass(frozen=True)
class Fault:
    """What is wrong on purpose, and within how many cuts of each file system that must be seen."""

    name: str
    options: tuple[str, ...]
    cuts_max: int
    cuts_a_round: int
    is_planted: bool = False
    """It is in the core, in builds with the feature `planted`."""


# A sync of a new file takes its name along on both file systems: syncs of folders that are forgotten were not seen in
# 60 cuts of each. File systems that lose names are for other harnesses.
FAULTS = (
    Fault("syncs forgotten", ("--forgets", "syncs"), 20, 4),
    Fault("AckBeforeSync", ("--planted", "AckBeforeSync"), 40, 4, is_planted=True),
)


def prove(fault: Fault, kind: Kind, plan: Plan, numbers: Iterator[int], found: Found) -> None:
    """Cuts stores with this fault until it is seen; a fault that is not seen in time is a finding."""
    layer = f"fault {fault.name} on {kind.name}"
    program = plan.planted_program if fault.is_planted else plan.program
    if program is None:
        found.not_run[layer] = "no program with the feature `planted` was given"
        return
    seen = Found()
    wrong = replace(
        plan,
        program=program,
        faults=fault.options,
        far_ms_max=FAR_MS_MAX,
        cuts_a_round=fault.cuts_a_round,
        messages_per_second=plan.messages_per_second * 3,
    )
    while not seen.is_broken and sum(seen.cuts.values()) < fault.cuts_max:
        Round(wrong, kind, next(numbers), seen).run(lambda: True)
    cuts = sum(seen.cuts.values())
    found.count("restarts", seen.counts["restarts"])
    found.cut_many(f"{kind.name} with a fault", cuts)
    if seen.is_broken:
        found.count(f"{layer}: cuts until seen", cuts)
        found.proofs[layer] = seen.wrong[0][:160]
    else:
        found.add("fault missed", f"{layer}: not seen in {cuts} cuts")
